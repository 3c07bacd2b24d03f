package reward

import (
	"fmt"
	"slices"

	"vagen/internal/floats"
	"vagen/policy/loss"
)

// ShapeKL subtracts a penalty for the divergence from the reference policy:
//
//	dst = score − coefficient · KL(logProb, reference) · mask
//
// KL is an estimate from one token; a "+" at the end of its name changes nothing here, as no gradient
// is computed. Sums are made in float64. Slices hold rows back to back; row i is
// [offsets[i], offsets[i+1]). dst may be scores itself. A nil mask penalises every token; the
// legacy system penalises all tokens of the row, those of the environment included, Lite those
// of the model.
// A nil reference and loss.NoKL mean no penalty.
//
// It returns the mean over rows of the mean estimate over the row's masked
// tokens, which is the input of Controller.Update. Rows without such a token are left
// out; with none at all the mean is 0. Lengths that differ and numbers that are not
// finite are errors that name row and token; dst is undefined then.
func ShapeKL[F float32 | float64](
	dst, scores, logProbs, reference []F, mask []bool, offsets []int, k loss.KL, coefficient float64,
) (float64, error) {
	n := len(scores)
	switch {
	case len(dst) != n, reference != nil && (len(logProbs) != n || len(reference) != n), mask != nil && len(mask) != n:
		return 0, fmt.Errorf("reward: shape kl: lengths differ: dst %d, scores %d, log-probs %d, reference %d, mask %d",
			len(dst), n, len(logProbs), len(reference), len(mask))
	case len(offsets) == 0 || offsets[0] != 0 || offsets[len(offsets)-1] != n || !slices.IsSorted(offsets):
		return 0, fmt.Errorf("reward: shape kl: offsets must rise from 0 to %d, found %v", n, offsets)
	case !floats.Finite(coefficient):
		return 0, fmt.Errorf("reward: shape kl: the coefficient is %v, it must be finite", coefficient)
	}
	if err := k.Check(); err != nil {
		return 0, fmt.Errorf("reward: shape kl: %w", err)
	}
	if reference == nil {
		mask = make([]bool, n)
	}
	var sum float64
	var rows int
	for row := range len(offsets) - 1 {
		var rowSum float64
		var tokens int
		for i := offsets[row]; i < offsets[row+1]; i++ {
			dst[i] = scores[i]
			if mask != nil && !mask[i] {
				if !floats.Finite(scores[i]) {
					return 0, fmt.Errorf("reward: shape kl: row %d, token %d: score %v must be finite", row, i-offsets[row], scores[i])
				}
				continue
			}
			value, _, _ := k.Of(float64(logProbs[i]), float64(reference[i]))
			inputs := floats.Finite(logProbs[i]) && floats.Finite(reference[i]) // which the limit of K3 hides
			if !inputs || !floats.Finite(value) || !floats.Finite(scores[i]) {
				return 0, fmt.Errorf("reward: shape kl: row %d, token %d: score %v, log-prob %v, reference %v; all must be finite",
					row, i-offsets[row], scores[i], logProbs[i], reference[i])
			}
			dst[i] = F(float64(scores[i]) - coefficient*value)
			if !floats.Finite(dst[i]) {
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
	if mean := sum / float64(max(1, rows)); floats.Finite(mean) {
		return mean, nil
	}
	return 0, fmt.Errorf("reward: shape kl: the estimates of %d rows have no finite mean", rows)
}
