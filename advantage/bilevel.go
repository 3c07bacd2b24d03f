package advantage

import "fmt"

// BiLevel is VAGEN's bi-level advantage estimation: turns first, tokens second.
//
// Turn level, over the positions e1 < … < eK of a row with TurnEnd set:
//
//	δk = r(ek) + γH·V(ek+1) − V(ek),   V(eK+1) = 0
//	Hk = δk + γHλ·H(k+1)
//
// Token level, over the positions under the mask, backwards: at a turn end the
// recursion restarts with A = Hk; before it
//
//	δt = r(t) + γ·V(next) − V(t),   At = δt + γλ·A(next)
//
// where next is the following position under the mask. So a turn's credit from
// later turns arrives at its last token, discounted by turns, and is spread
// over the turn's tokens, discounted by tokens. Tokens without a turn end belong to
// the next turn.
//
// The mask is Loss, or Attention without a loss mask. Returns are
// A + V under the mask, 0 elsewhere. Advantages are whitened over the mask,
// which maps the zeros elsewhere to one constant. A row without token under the
// mask stays 0. When the last token under the mask is not a turn end, the error
// is an ErrNoTurnEnd.
//
// See VAGEN, arXiv:2510.16907. Config name: bi_level_gae.
type BiLevel struct {
	Gamma     float64 // γ, discount per token within a turn, in [0, 1]
	Lambda    float64 // λ of both levels, in [0, 1]
	TurnGamma float64 // γH, discount per turn, in [0, 1]
	Whiten    bool    // whiten advantages
}

// Estimate implements [Estimator].
func (l BiLevel) Estimate(dst *Result, b *Batch) error {
	return estimate(dst, b, "bi_level_gae", l, runBiLevel[float32])
}

func runBiLevel[T number](l BiLevel, c *call[T]) error {
	if err := firstError(unit("gamma", l.Gamma), unit("lambda", l.Lambda), unit("turn gamma", l.TurnGamma),
		c.needValues(), c.needTurnEnds()); err != nil {
		return err
	}
	c.mask = c.lossMask()
	p := slot[biLevelPass[T]](c.scratch, mainSlot)
	*p = biLevelPass[T]{
		c:     c,
		token: recursion{gamma: l.Gamma, decay: l.Gamma * l.Lambda},
		turn:  recursion{gamma: l.TurnGamma, decay: l.TurnGamma * l.Lambda},
	}
	if err := c.scratch.each(p, c.rows(), c.tokens()); err != nil || !l.Whiten {
		return err
	}
	return c.whiten(Whitening{}, mapKnown)
}

type biLevelPass[T number] struct {
	c           *call[T]
	token, turn recursion // state at the start of every row
}

func (p *biLevelPass[T]) do(from, to int) {
	c := p.c
	for row := from; row < to; row++ {
		lo, hi := c.offsets[row], c.offsets[row+1]
		last, end := lastTrue(c.mask[lo:hi]), lastTrue(c.turnEnds[lo:hi])
		if end > last || last >= 0 && !c.turnEnds[lo+last] {
			c.scratch.fail(row, fmt.Errorf("turn_end: row %d: last token under the mask at %d, last turn end at %d: %w", row, last, end, ErrNoTurnEnd))
			continue
		}
		p.row(row)
	}
}

func (p *biLevelPass[T]) row(row int) {
	c := p.c
	lo, ok := c.offsets[row], true
	token, turn := p.token, p.turn
	token.spread.shift = c.firstDelta(row, c.mask)
	for end := c.offsets[row+1]; end > lo; {
		start, in := runBefore(c.mask, lo, end)
		if in {
			p.run(start, end, &token, &turn)
		} else {
			ok = c.skip(start, end, 0) && ok
			// Turn ends outside the mask also end turns.
			for t := lastTrue(c.turnEnds[start:end]); t >= 0; t = lastTrue(c.turnEnds[start : start+t]) {
				turn.step(float64(c.rewards[start+t]), float64(c.values[start+t]))
			}
		}
		end = start
	}
	c.close(row, &token.spread, ok)
}

// run applies the recursions to a run of tokens under the mask.
func (p *biLevelPass[T]) run(start, end int, token, turn *recursion) {
	c := p.c
	for end > start {
		e := start + lastTrue(c.turnEnds[start:end]) // start − 1 if there is none
		advance(token, c.rewards[e+1:end], c.values[e+1:end], c.adv[e+1:end], c.ret[e+1:end])
		if e < start {
			return
		}
		value := float64(c.values[e])
		h := turn.step(float64(c.rewards[e]), value)
		token.acc, token.next = h, value
		token.spread.add(h, 1)
		c.adv[e], c.ret[e] = T(h), T(h+value)
		end = e
	}
}
