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
	return estimate(dst, b, "remax", r, runReMax[float32])
}

func runReMax[T number](_ ReMax, c *call[T]) error {
	if len(c.baselines) == 0 && c.rows() > 0 {
		return fmt.Errorf("baselines: %w", ErrNoGroup)
	}
	for row, x := range c.baselines {
		if x-x != 0 {
			return fmt.Errorf("baselines: row %d: %v: %w", row, x, ErrNotFinite)
		}
	}
	c.mask = c.lossMask()
	p := slot[remaxPass[T]](c.scratch, mainSlot)
	p.c = c
	return c.scratch.each(p, c.rows(), c.tokens())
}

type remaxPass[T number] struct{ c *call[T] }

func (p *remaxPass[T]) do(from, to int) {
	c := p.c
	for row := from; row < to; row++ {
		lo, ok := c.offsets[row], true
		s := recursion{decay: 1}
		for end := c.offsets[row+1]; end > lo; {
			start, in := runBefore(c.mask, lo, end)
			r, adv, ret := c.rewards[start:end], c.adv[start:end], c.ret[start:end]
			if in {
				advanceWithoutValues(&s, r, adv, ret)
				scale(adv, adv, float64(c.baselines[row]), 1)
			} else {
				ok = prepare(r, r, adv, ret, T(s.acc)) && ok
				copy(adv, ret)
			}
			end = start
		}
		if !ok || !s.spread.safe() { // with safe sums every baseline can be subtracted
			c.examine(row, false)
		}
	}
}
