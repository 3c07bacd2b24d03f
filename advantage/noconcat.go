package advantage

import "slices"

// NoConcat is advantage estimation with rows as steps: each row is one turn of
// an episode, as written by a harness that opens a conversation per turn.
//
// Row k of an episode, in the order of Turn, has reward rk, the sum of its
// rewards under the mask, and value Vk, the critic's at the anchor: the first
// token under the mask, or the last with Last set. A row without token under
// the mask is a step with value 0.
//
//	δk = rk + γ·V(k+1) − Vk,   V after the last row = 0
//	Ak = δk + γλ·A(k+1),   Rk = Ak + Vk
//
// All tokens of the row under the mask get Ak. Rk is the return at the anchor;
// everywhere else the return is IgnoreReturn and ValueMask is false. The original has
// no value mask in its first-token form, so that its critic is also trained towards
// IgnoreReturn; here both forms have one.
//
// Advantages are whitened with [GuardedWhitening] over the mask, copies not
// counted, and positions off the mask are mapped as well. The mask is Loss, or
// Attention without a loss mask. Fewer than two tokens in the batch
// are an ErrEmptyMask, and two different rows with one identity an ErrConflict.
//
// Config names: no_concat_gae, or no_concat_gae_first, its older name, and
// no_concat_gae_last.
type NoConcat struct {
	Gamma  float64 // discount per row, in [0, 1]
	Lambda float64 // bias (0) against variance (1), in [0, 1]
	Last   bool    // anchor at the last token instead of the first
	Whiten bool    // whiten advantages
}

// Estimate implements [Estimator].
func (g NoConcat) Estimate(dst *Result, b *Batch) error {
	return estimate(dst, b, "no_concat_gae", g.run)
}

func (g NoConcat) run(c *call) error {
	e, err := c.stitchLoss(unit("gamma", g.Gamma), unit("lambda", g.Lambda))
	if err != nil {
		return err
	}
	c.publishValueMask()
	for k := range e.count() {
		s := newRecursion(g.Gamma, g.Lambda)
		rows := e.rows(k)
		for i := len(rows) - 1; i >= 0; i-- {
			g.row(c, rows[i], &s)
		}
	}
	return c.whiten(g.Whiten, GuardedWhitening(), c.mask, false)
}

func (g NoConcat) row(c *call, row int, s *recursion) {
	lo, hi := c.Row(row)
	m := c.rowMask(row)
	anchor, value := slices.Index(m, true), 0.0
	if g.Last {
		anchor = lastTrue(m)
	}
	if anchor >= 0 {
		value = float64(c.Values[lo+anchor])
	}
	a := s.step(c.maskedSum(row), value)
	c.spread(lo, hi, float32(a))
	if anchor >= 0 {
		c.ret[lo+anchor], c.valueMask[lo+anchor] = float32(a+value), true
	}
}
