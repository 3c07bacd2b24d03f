package loss

import "math"

// NLL returns the supervised loss of one token, −log π, and its derivative by the log-prob. With dft both are times the
// token's probability, without gradient, so that unlikely tokens are learned less: dynamic fine-tuning,
// arXiv:2508.05629, loss_type dft of TRL.
func NLL(logProb float64, dft bool) (value, slope float64) {
	weight := 1.0
	if dft {
		weight = math.Exp(logProb)
	}
	return -weight * logProb, -weight
}
