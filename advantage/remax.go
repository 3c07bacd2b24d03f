package advantage

import "fmt"

// ReMax subtracts the score of the greedy response to the same prompt:
//
//	Rt = Σ over i ≥ t of r(i)·m(i),   At = Rt − baseline·m(t)
//
// m is the mask: Loss, or Attention without a loss mask. Outside it advantage and
// return are both the sum of the later rewards, which the loss mask excludes from
// training. There is one baseline per row, in Baselines; without them the error is an
// ErrNoGroup. No critic, no whitening.
//
// See Li et al., arXiv:2310.10505. Config name: remax.
type ReMax struct{}

// Estimate implements [Estimator].
func (r ReMax) Estimate(dst *Result, b *Batch) error {
	return estimate(dst, b, "remax", r.run)
}

func (ReMax) run(c *call) error {
	if len(c.Baselines) == 0 && c.Rows() > 0 {
		return fmt.Errorf("baselines: %w", ErrNoGroup)
	}
	for row, x := range c.Baselines {
		if x-x != 0 {
			return fmt.Errorf("baselines: row %d: %v: %w", row, x, ErrNotFinite)
		}
	}
	c.mask = c.lossMask()
	for row := range c.Rows() {
		after := 0.0
		for lo, t := c.Offsets[row], c.Offsets[row+1]-1; t >= lo; t-- {
			baseline := 0.0
			if c.mask[t] {
				after += float64(c.Rewards[t])
				baseline = float64(c.Baselines[row])
			}
			c.ret[t], c.adv[t] = float32(after), float32(after-baseline)
		}
	}
	_, err := c.check(nil)
	return err
}
