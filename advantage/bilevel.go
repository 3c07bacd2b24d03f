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
	return estimate(dst, b, "bi_level_gae", l.run)
}

func (l BiLevel) run(c *call) error {
	if err := firstError(unit("gamma", l.Gamma), unit("lambda", l.Lambda), unit("turn gamma", l.TurnGamma),
		c.needValues(), c.needTurnEnds()); err != nil {
		return err
	}
	c.mask = c.lossMask()
	for row := range c.Rows() {
		lo, hi := c.Row(row)
		last, end := lastTrue(c.mask[lo:hi]), lastTrue(c.TurnEnd[lo:hi])
		if end > last || last >= 0 && !c.TurnEnd[lo+last] {
			return fmt.Errorf("turn_end: row %d: last token under the mask at %d, last turn end at %d: %w",
				row, last, end, ErrNoTurnEnd)
		}
		token := newRecursion(l.Gamma, l.Lambda)
		turn := newRecursion(l.TurnGamma, l.Lambda)
		for t := hi - 1; t >= lo; t-- {
			switch {
			case c.TurnEnd[t] && c.mask[t]:
				c.token(t, &turn)
				token.acc, token.next = turn.acc, turn.next
			case c.TurnEnd[t]: // turn ends outside the mask also end turns
				turn.step(float64(c.Rewards[t]), float64(c.Values[t]))
			case c.mask[t]:
				c.token(t, &token)
			}
		}
	}
	return c.whiten(l.Whiten, Whitening{}, c.mask, false)
}
