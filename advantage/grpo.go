package advantage

import "math"

// GRPO compares the rows of a group with each other: every token of a row gets
//
//	A = (s − mean) / (std + ε),   std² = Σ (s − mean)² / (n − 1)
//
// where s is the sum of all rewards of the row, whether or not the model wrote the token, and
// mean and std are taken over the rows with the same Group. No critic is
// needed. For a group of one, mean is 0 and std is 1. In a group
// with equal scores all advantages are 0, since sums and means are in float64.
//
// The mask is Loss, or Attention without a loss mask; advantages
// are 0 elsewhere. Returns are the same numbers. Nothing is whitened. A batch
// without Group is an ErrNoGroup.
//
// See Shao et al., arXiv:2402.03300; without the division, Liu et al.,
// arXiv:2503.20783 (Dr. GRPO). Config names: grpo; masked_grpo and lite_grpo, which
// promise a loss mask.
type GRPO struct {
	// NormByStd divides by std + ε.
	NormByStd bool
	// Epsilon is ε; 0 means DefaultEpsilon, because the standard deviation of
	// equal scores is 0.
	Epsilon float64 `needs:"NormByStd"`
}

// DefaultEpsilon is added to standard deviations of groups.
const DefaultEpsilon = 1e-6

// Estimate implements [Estimator].
func (g GRPO) Estimate(dst *Result, b *Batch) error {
	return estimate(dst, b, "grpo", g.run)
}

func (g GRPO) run(c *call) error {
	eps, err := epsilon(g.Epsilon)
	if err != nil {
		return err
	}
	return c.compareRows(func(groups *groups, row int, s float64) float64 {
		return groups.compare(row, s, g.NormByStd, eps, s)
	})
}

// compare returns the advantage of an item over its group, and alone for the
// only member of a group.
func (g *groups) compare(item int, score float64, normByStd bool, eps, alone float64) float64 {
	k := g.of[item]
	d, std := score-g.mean[k], 1.0
	if n := g.size[k]; n > 1 {
		std = math.Sqrt(g.m2[k] / float64(n-1))
	} else {
		d = alone
	}
	if !normByStd {
		return d
	}
	return d / (std + eps)
}

// epsilon returns the number to add to a standard deviation.
func epsilon(x float64) (float64, error) {
	if x == 0 {
		return DefaultEpsilon, nil
	}
	if !(x > 0 && x <= math.MaxFloat64) {
		return 0, errParameter("epsilon", x, "positive, or 0 for the default")
	}
	return x, nil
}
