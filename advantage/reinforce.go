package advantage

// ReinforcePlusPlus uses the discounted sum of the rewards to come, whitened
// over the whole batch, and neither critic nor groups:
//
//	Gt = rt + γ·G(t+1)·m(t+1),   Rt = Gt,   A = whitened G under the mask
//
// A token outside the mask m ends the sum: rewards after it do not count for tokens
// before it. So with a loss mask each turn is credited with its own rewards only, as in
// the original on rows of several turns; without one the whole row counts. Advantages are
// 0 outside the mask, returns are not. Fewer than two tokens under the mask are an
// ErrEmptyMask.
//
// With Across the sum does not end at such tokens: all rewards of the row after a token count
// for it, discounted by their distance, context included.
//
// The mask is Loss, or Attention without a loss mask.
//
// See Hu, arXiv:2501.03262. Config names: reinforce_plus_plus; with Across, as in slime,
// reinforce_plus_plus_slime.
type ReinforcePlusPlus struct {
	Gamma  float64 // discount per token, in [0, 1]
	Whiten bool    // whiten advantages
	Across bool    // sum over context
}

// Estimate implements [Estimator].
func (r ReinforcePlusPlus) Estimate(dst *Result, b *Batch) error {
	name := "reinforce_plus_plus"
	if r.Across {
		name = "reinforce_plus_plus_slime"
	}
	return estimate(dst, b, name, r.run)
}

func (r ReinforcePlusPlus) run(c *call) error {
	if err := unit("gamma", r.Gamma); err != nil {
		return err
	}
	c.mask = c.lossMask()
	for row := range c.Rows() {
		after := 0.0 // return of the following token, 0 if it is outside the mask
		for lo, t := c.Offsets[row], c.Offsets[row+1]-1; t >= lo; t-- {
			g := float64(c.Rewards[t]) + float64(r.Gamma*after)
			c.ret[t], after = float32(g), 0
			if c.mask[t] {
				c.adv[t] = float32(g)
			}
			if c.mask[t] || r.Across {
				after = g
			}
		}
	}
	return c.whiten(r.Whiten, Whitening{}, c.mask, true)
}

// ReinforcePlusPlusBaseline is REINFORCE++ with the group's mean as baseline:
// each row's summed reward minus the mean of its Group, given to all tokens
// under the mask and whitened over them across the batch. A group of one keeps
// its score. Advantages are 0 outside the mask; returns are the same numbers.
// Fewer than two tokens under the mask are an ErrEmptyMask, a batch without
// Group is an ErrNoGroup.
//
// The mask is Loss, or Attention without a loss mask.
//
// See Hu, arXiv:2501.03262. Config name: reinforce_plus_plus_baseline.
type ReinforcePlusPlusBaseline struct {
	Whiten bool // whiten advantages
}

// Estimate implements [Estimator].
func (r ReinforcePlusPlusBaseline) Estimate(dst *Result, b *Batch) error {
	return estimate(dst, b, "reinforce_plus_plus_baseline", r.run)
}

func (r ReinforcePlusPlusBaseline) run(c *call) error {
	g, scores, err := c.scoredGroups()
	if err != nil {
		return err
	}
	for row, s := range scores {
		if k := g.of[row]; g.size[k] > 1 {
			scores[row] = s - g.mean[k]
		}
	}
	c.broadcast(scores)
	err = c.whiten(r.Whiten, GuardedWhitening(), c.mask, true)
	copy(c.ret, c.adv)
	return err
}
