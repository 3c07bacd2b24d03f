package loss

import "math"

// maxLogRatio bounds a log-ratio before it is exponentiated, where a loss asks
// for it: exp(20) is about 4.9e8. It is verl's constant.
const maxLogRatio = 20

// maxLogTurn caps the log-ratio of rows and turns, after verl's GSPO.
const maxLogTurn = 10

// The helpers below carry a value together with its derivative. At a kink they
// take the mean of both sides for max and min, and pass the derivative at the
// edges of a clamp, which is what automatic differentiation in PyTorch does.

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

// clamp returns x inside [lo, hi] and the factor that its derivative takes: 1
// inside, 0 outside.
func clamp(x, lo, hi float64) (v, pass float64) {
	switch {
	case x < lo:
		return lo, 0
	case x > hi:
		return hi, 0
	}
	return x, 1
}

// capped bounds a log-ratio for statistics, so that one wild token leaves a
// readable number instead of infinity.
func capped(logRatio float64) float64 {
	return math.Max(-maxLogRatio, math.Min(maxLogRatio, logRatio))
}
