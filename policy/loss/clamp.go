package loss

// maxLogRatio is the limit to which losses clamp a log-ratio before exp: exp(20) is about
// 4.9e8. It is verl's constant.
const maxLogRatio = 20

// maxLogTurn is the upper limit of the log-ratio of rows and turns, after verl's GSPO.
const maxLogTurn = 10

// The functions below return a value together with its derivative. Where there is no
// derivative, max and min return the mean of both sides, and clamp the derivative at its
// edges, as automatic differentiation in PyTorch 2.13 does; in 2.15 clamps have 0 there.

func maxOf(a, da, b, db float64) (v, dv float64) {
	switch {
	case a > b:
		return a, da
	case b > a:
		return b, db
	}
	return a, (da + db) / 2
}

func minOf(a, da, b, db float64) (v, dv float64) {
	switch {
	case a < b:
		return a, da
	case b < a:
		return b, db
	}
	return a, (da + db) / 2
}

// clamp returns x limited to [lo, hi] and the factor of its derivative: 1 inside, 0
// outside.
func clamp(x, lo, hi float64) (v, pass float64) {
	switch {
	case x < lo:
		return lo, 0
	case x > hi:
		return hi, 0
	}
	return x, 1
}

// clampedRatio clamps a log-ratio for statistics, so that an outlier cannot make them infinite.
func clampedRatio(logRatio float64) float64 {
	return max(-maxLogRatio, min(maxLogRatio, logRatio))
}
