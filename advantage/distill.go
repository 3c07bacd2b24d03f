package advantage

import (
	"fmt"

	"vagen/internal/floats"
)

// Distill adds the reverse KL to a teacher to advantages, as estimated from the sampled tokens:
//
//	A(t) += x(t),   x(t) = −coef·(log π(t) − log π_teacher(t)) under the mask, else 0
//
// With a discount γ above 0 x is first replaced by the discounted sum of itself to come in the row, context
// included; so tokens off the mask get a share, too. It returns the mean of log π − log π_teacher under the mask.
// All slices have one number per token; errors are ErrLength, ErrParameter and ErrNotFinite, after which adv is
// undefined.
//
// As the tinker cookbook's kl_penalty_coef and kl_discount_factor; slime's opd_kl_coef has no mask and no discount.
func Distill(
	adv, logProbs, teacher []float32, mask []bool, offsets []int, coef, discount float64,
) (kl float64, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("advantage: distill: %w", err)
		}
	}()
	n := len(adv)
	if err := firstError(checkOffsets(offsets, n), unit("discount", discount)); err != nil {
		return 0, err
	}
	if !floats.Finite(coef) {
		return 0, errParameter("coef", coef, "finite")
	}
	if len(logProbs) != n || len(teacher) != n || len(mask) != n {
		return 0, fmt.Errorf("%d log-probs, %d of the teacher and a mask of %d for %d tokens: %w", len(logProbs),
			len(teacher), len(mask), n, ErrLength)
	}
	count := 0.0
	for row := range max(0, len(offsets)-1) {
		after := 0.0
		for t := offsets[row+1] - 1; t >= offsets[row]; t-- {
			x := 0.0
			if mask[t] {
				d := float64(logProbs[t]) - float64(teacher[t])
				kl, count, x = kl+d, count+1, -coef*d
			}
			after = x + float64(discount*after)
			if adv[t] += float32(after); adv[t]-adv[t] != 0 {
				return 0, fmt.Errorf("row %d, position %d: %v: %w", row, t-offsets[row], adv[t], ErrNotFinite)
			}
		}
	}
	return kl / max(1, count), nil
}
