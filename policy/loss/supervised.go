package loss

import "math"

// NLL returns the supervised loss of one token, −log π, and its derivative by the log-prob.
func NLL(logProb float64) (value, slope float64) { return -logProb, -1 }

// DFT returns NLL times the token's probability, without gradient of the latter, so that unlikely tokens are learned
// less: dynamic fine-tuning, arXiv:2508.05629, loss_type dft of TRL.
func DFT(logProb float64) (value, slope float64) {
	p := math.Exp(logProb)
	return -p * logProb, -p
}
