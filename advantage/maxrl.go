package advantage

import "math"

// MaxRL divides the distance to the group's mean by the mean, so that the gradient follows the
// logarithm of the success rate: rare successes count more.
//
//	A = (s − mean) / (mean + ε)
//
// where s is the sum of all rewards of a row and the mean is taken over its Group. Every token
// under the mask gets the row's advantage, others 0; returns are the same numbers. No critic, no
// whitening. With Guarded nothing is added to the mean, and a group whose mean is not positive
// gets 0, as does one whose mean is no more than the rounding of its rewards, which are float32.
// Without it a group of one keeps its score, and a negative mean turns the signs around.
//
// The mask is Loss, or Attention without a loss mask. A batch without Group is an ErrNoGroup.
//
// See arXiv:2602.02710, as in SkyRL (config name maxrl_skyrl) and, guarded, in prime-rl
// (max_rl_prime).
type MaxRL struct {
	Epsilon float64 // ε, not read if Guarded; 0 means DefaultEpsilon
	Guarded bool
}

// Estimate implements [Estimator].
func (m MaxRL) Estimate(dst *Result, b *Batch) error {
	name := "maxrl_skyrl"
	if m.Guarded {
		name = "max_rl_prime"
	}
	return estimate(dst, b, name, m.run)
}

func (m MaxRL) run(c *call) error {
	eps, err := epsilon(m.Epsilon)
	if err != nil {
		return err
	}
	return c.compareRows(func(g *groups, row int, s float64) float64 {
		k := g.of[row]
		switch mean := g.mean[k]; {
		case m.Guarded && mean > 0x1p-22*math.Sqrt(g.m2[k]/float64(g.size[k])):
			return (s - mean) / mean
		case m.Guarded:
			return 0
		case g.size[k] > 1:
			return (s - mean) / (mean + eps)
		}
		return s
	})
}
