package advantage

// RLOO compares each row of a group with the mean of the others, leaving itself
// out:
//
//	A = s − mean of the others = (s − mean)·n / (n − 1)
//
// where s is the sum of all rewards of the row and n the size of its Group. A
// group of one keeps its score. Every token under the mask gets the row's
// advantage, others 0; returns are the same numbers. No critic, no whitening.
//
// The mask is Loss, or Attention without a loss mask. A batch
// without Group is an ErrNoGroup.
//
// See Ahmadian et al., arXiv:2402.14740. Config name: rloo.
type RLOO struct{}

// Estimate implements [Estimator].
func (r RLOO) Estimate(dst *Result, b *Batch) error {
	return estimate(dst, b, "rloo", r.run)
}

func (RLOO) run(c *call) error {
	return c.compareRows(func(g *groups, row int, s float64) float64 {
		k := g.of[row]
		if n := float64(g.size[k]); n > 1 {
			return (s - g.mean[k]) * (n / (n - 1))
		}
		return s
	})
}
