package reward

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"vagen/internal/nearest"
)

// KL is an estimate, from one token, of the divergence of the policy from a
// reference. With d = log π(token) − log π_ref(token) it is
//
//	KLDifference  d                                    (k1, kl)
//	KLAbsolute    |d|                                  (abs)
//	KLSquared     d²/2                                 (k2, mse)
//	KLLowVariance min(max(exp(−d) + d − 1, −10), 10)   (k3, low_var_kl)
//
// Names after http://joschu.net/blog/kl-approx.html (Schulman, 2020). For tokens that
// the policy sampled, KLDifference is unbiased, with a high variance; KLLowVariance is
// unbiased apart from its clamp, with a low one near the reference. KLSquared has a low
// variance and a bias that is small near the reference; KLAbsolute is biased.
type KL string

// The estimates.
const (
	KLDifference  KL = "kl"
	KLAbsolute    KL = "abs"
	KLSquared     KL = "mse"
	KLLowVariance KL = "low_var_kl"
)

var klNames = map[string]KL{
	"kl": KLDifference, "k1": KLDifference, "abs": KLAbsolute,
	"mse": KLSquared, "k2": KLSquared, "low_var_kl": KLLowVariance, "k3": KLLowVariance,
}

// ParseKL returns the estimate of a name or one of its aliases.
func ParseKL(name string) (KL, error) {
	k, ok := klNames[name]
	if !ok {
		known := slices.Sorted(maps.Keys(klNames))
		return "", fmt.Errorf("reward: kl penalty %q is not one of %v%s", name, known, nearest.Hint(name, known))
	}
	return k, nil
}

// klClamp bounds the low-variance estimate.
const klClamp = 10

// Value returns the estimate for a token with the two log-probabilities. It is
// NaN for a KL that does not exist.
func (k KL) Value(logProb, reference float64) float64 {
	d := logProb - reference
	switch k {
	case KLDifference:
		return d
	case KLAbsolute:
		return math.Abs(d)
	case KLSquared:
		return d * d / 2
	case KLLowVariance:
		return min(max(math.Exp(-d)+d-1, -klClamp), klClamp)
	}
	return math.NaN()
}

// Derivative returns the derivative of Value with respect to logProb: 0 where
// the clamp is active, and 0 for the absolute value at 0.
func (k KL) Derivative(logProb, reference float64) float64 {
	d := logProb - reference
	switch k {
	case KLDifference:
		return 1
	case KLAbsolute:
		switch {
		case d > 0:
			return 1
		case d < 0:
			return -1
		}
		return d // 0, or NaN
	case KLSquared:
		return d
	case KLLowVariance:
		if e := math.Exp(-d); e+d-1 <= klClamp {
			return 1 - e
		}
		return 0
	}
	return math.NaN()
}

// ShapeKL subtracts a penalty for the divergence from the reference policy:
//
//	dst = score − coefficient · KL(logProb, reference) · mask
//
// Sums are made in float64. Slices hold rows back to back; row i is [offsets[i], offsets[i+1]). dst may be
// scores itself. A nil mask penalises every token; the legacy system penalises all
// tokens of the row, those of the environment included, Lite those of the model.
// A nil reference means no penalty.
//
// It returns the mean over rows of the mean estimate over the row's masked
// tokens, which is the input of Controller.Update. Rows without such a token are left
// out; with none at all the mean is 0. Lengths that differ and numbers that are not
// finite are errors that name row and token; dst is undefined then.
func ShapeKL[F float32 | float64](dst, scores, logProbs, reference []F, mask []bool, offsets []int, k KL, coefficient float64) (float64, error) {
	n := len(scores)
	switch {
	case len(dst) != n, reference != nil && (len(logProbs) != n || len(reference) != n), mask != nil && len(mask) != n:
		return 0, fmt.Errorf("reward: shape kl: lengths differ: dst %d, scores %d, log-probs %d, reference %d, mask %d",
			len(dst), n, len(logProbs), len(reference), len(mask))
	case len(offsets) == 0 || offsets[0] != 0 || offsets[len(offsets)-1] != n || !slices.IsSorted(offsets):
		return 0, fmt.Errorf("reward: shape kl: offsets must rise from 0 to %d, found %v", n, offsets)
	case !finite(coefficient):
		return 0, fmt.Errorf("reward: shape kl: the coefficient is %v, it must be finite", coefficient)
	}
	if reference == nil {
		mask, k = make([]bool, n), KLDifference
	}
	if math.IsNaN(k.Value(0, 0)) {
		return 0, fmt.Errorf("reward: shape kl: kl penalty %q is unknown", k)
	}
	var sum float64
	var rows int
	for row := range len(offsets) - 1 {
		var rowSum float64
		var tokens int
		for i := offsets[row]; i < offsets[row+1]; i++ {
			dst[i] = scores[i]
			if mask != nil && !mask[i] {
				if !finite(float64(scores[i])) {
					return 0, fmt.Errorf("reward: shape kl: row %d, token %d: score %v must be finite", row, i-offsets[row], scores[i])
				}
				continue
			}
			value := k.Value(float64(logProbs[i]), float64(reference[i]))
			if !finite(value) || !finite(float64(scores[i])) {
				return 0, fmt.Errorf("reward: shape kl: row %d, token %d: score %v, log-prob %v, reference %v; all must be finite",
					row, i-offsets[row], scores[i], logProbs[i], reference[i])
			}
			dst[i] = F(float64(scores[i]) - coefficient*value)
			if !finite(float64(dst[i])) {
				return 0, fmt.Errorf("reward: shape kl: row %d, token %d: score %v minus %v times %v is %v, must be finite",
					row, i-offsets[row], scores[i], coefficient, value, dst[i])
			}
			rowSum += value
			tokens++
		}
		if tokens > 0 {
			sum += rowSum / float64(tokens)
			rows++
		}
	}
	if mean := sum / float64(max(1, rows)); finite(mean) {
		return mean, nil
	}
	return 0, fmt.Errorf("reward: shape kl: the estimates of %d rows have no finite mean", rows)
}
