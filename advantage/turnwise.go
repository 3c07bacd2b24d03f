package advantage

// TurnWise is advantage estimation with turns as steps: all tokens of a turn
// share one advantage.
//
// Over the positions e1 < … < eK of a row with TurnEnd set,
//
//	δk = r(ek) + γH·V(ek+1) − V(ek),   V(eK+1) = 0
//	Hk = δk + γHλ·H(k+1)
//
// and every token under the mask gets the H of the next turn end at or after
// it; tokens after the last turn end get 0. Returns are H + V at the turn ends
// and 0 elsewhere, so the critic has to be trained on turn ends.
//
// The mask is Loss, or Attention without a loss mask. Advantages
// are whitened over the turn ends, one per turn, and the same map is
// applied everywhere. Fewer than two turn ends in the batch are an
// ErrEmptyMask. A row without turn end stays 0.
//
// See VAGEN, arXiv:2510.16907 (its Turn-PPO baseline). Config name:
// turn_wise_gae.
type TurnWise struct {
	TurnGamma float64 // γH, discount per turn, in [0, 1]
	Lambda    float64 // bias (0) against variance (1), in [0, 1]
	Whiten    bool    // whiten advantages
}

// Estimate implements [Estimator].
func (w TurnWise) Estimate(dst *Result, b *Batch) error {
	return estimate(dst, b, "turn_wise_gae", w.run)
}

func (w TurnWise) run(c *call) error {
	if err := firstError(unit("turn gamma", w.TurnGamma), unit("lambda", w.Lambda), c.needValues(),
		c.needTurnEnds()); err != nil {
		return err
	}
	c.mask = c.lossMask()
	for row := range c.Rows() {
		s := newRecursion(w.TurnGamma, w.Lambda)
		for lo, t := c.Offsets[row], c.Offsets[row+1]-1; t >= lo; t-- {
			if c.TurnEnd[t] {
				c.token(t, &s)
			} else if c.mask[t] {
				c.adv[t] = float32(s.acc)
			}
		}
	}
	err := c.whiten(w.Whiten, Whitening{}, c.TurnEnd, false)
	for t, end := range c.TurnEnd {
		if end && !c.mask[t] {
			c.adv[t] = c.zero
		}
	}
	return err
}
