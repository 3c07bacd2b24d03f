package advantage

import "fmt"

// ReMax subtracts what the greedy response to the same prompt scored:
//
//	Rt = Σ over i ≥ t of r(i)·m(i),   At = Rt − baseline·m(t)
//
// m is the mask: Loss, and Attention where no loss mask is in force. Outside it
// advantage and return are both the sum of what is still to come; a loss mask
// keeps them out. There is one baseline per row, in Baselines; without them the
// error is an ErrNoGroup. No critic, no whitening.
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
	for row := from; row < to; row++ {
		if p.c.finiteRow(row, false) {
			p.row(row)
		}
	}
}

func (p *remaxPass[T]) row(row int) {
	c := p.c
	lo, hi := c.offsets[row], c.offsets[row+1]
	n := hi - lo
	r, m := c.rewards[lo:hi:hi], c.mask[lo:hi:hi][:n]
	adv, ret := c.adv[lo:hi:hi][:n], c.ret[lo:hi:hi][:n]
	baseline := float64(c.baselines[row])
	var togo, worst float64
	for t := n - 1; t >= 0; t-- {
		a := togo
		if m[t] {
			togo += float64(r[t])
			a = togo - baseline
		}
		adv[t], ret[t] = T(a), T(togo)
		worst = max(worst, a, -a, togo, -togo)
	}
	if worst >= safe {
		c.checkResults(row)
	}
}
