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
// recursion starts afresh with A = Hk; before it
//
//	δt = r(t) + γ·V(next) − V(t),   At = δt + γλ·A(next)
//
// where next is the following position under the mask. So a turn's credit from
// later turns arrives at its last token, discounted by turns, and is spread
// over the turn's tokens, discounted by tokens. A stretch without turn end runs
// on into the next turn.
//
// The mask is Loss, and Attention where no loss mask is in force. Returns are
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
	Raw       bool    // leave advantages unwhitened
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
		gamma: l.Gamma, decay: l.Gamma * l.Lambda,
		turnGamma: l.TurnGamma, turnDecay: l.TurnGamma * l.Lambda,
	}
	if err := c.scratch.each(p, c.rows(), c.tokens()); err != nil || l.Raw {
		return err
	}
	return c.whiten(Whitening{}, nil)
}

type biLevelPass[T number] struct {
	c                                  *call[T]
	gamma, decay, turnGamma, turnDecay float64
}

func (p *biLevelPass[T]) do(from, to int) {
	for row := from; row < to; row++ {
		if p.c.finiteRow(row, true) {
			p.row(row)
		}
	}
}

func (p *biLevelPass[T]) row(row int) {
	c := p.c
	lo, hi := c.offsets[row], c.offsets[row+1]
	n := hi - lo
	r, v, m, e := c.rewards[lo:hi:hi], c.values[lo:hi:hi][:n], c.mask[lo:hi:hi][:n], c.turnEnds[lo:hi:hi][:n]
	adv, ret := c.adv[lo:hi:hi][:n], c.ret[lo:hi:hi][:n]
	last := lastTrue(m)
	if end := lastTrue(e); end > last || last >= 0 && !e[last] {
		c.scratch.fail(row, fmt.Errorf("row %d: last token under the mask at %d, last turn end at %d: %w", row, last, end, ErrNoTurnEnd))
		return
	}
	var s spread
	if last >= 0 {
		s.shift = float64(r[last]) - float64(v[last])
	}
	var next, acc float64         // V and A of the following token under the mask
	var turnNext, turnAcc float64 // V and H of the following turn
	for t := n - 1; t >= 0; t-- {
		if e[t] {
			value := float64(v[t])
			delta := float64(r[t]) + float64(p.turnGamma*turnNext) - value
			turnAcc = delta + float64(p.turnDecay*turnAcc)
			turnNext = value
		}
		if !m[t] {
			adv[t], ret[t] = 0, 0
			continue
		}
		value := float64(v[t])
		if e[t] {
			acc = turnAcc
		} else {
			delta := float64(r[t]) + float64(p.gamma*next) - value
			acc = delta + float64(p.decay*acc)
		}
		next = value
		adv[t], ret[t] = T(acc), T(acc+value)
		s.add(acc)
	}
	c.close(row, &s)
}
