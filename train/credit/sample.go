package credit

import (
	"math"

	"vagen/rollout/evaluate"
)

// known are the pairs of which both returns are known.
func known(x, y []Number) (a, b []float64) {
	for i := range min(len(x), len(y)) {
		if p, q := float64(x[i]), float64(y[i]); !math.IsNaN(p) && !math.IsNaN(q) {
			a, b = append(a, p), append(b, q)
		}
	}
	return a, b
}

func differences(x, y []float64) []float64 {
	out := make([]float64, len(x))
	for i := range x {
		out[i] = x[i] - y[i]
	}
	return out
}

func mean(xs []float64) float64 { return evaluate.MeanOf(xs, evaluate.Level).Mean }

// estimate is a mean with Student's interval of 95 %, or with Bonferroni's correction for
// several comparisons.
func estimate(xs []float64, comparisons int) Figure {
	e := evaluate.MeanOf(xs, 1-(1-evaluate.Level)/float64(comparisons))
	return Figure{Number(e.Mean), Number(e.Low), Number(e.High)}
}

// rounding is what sums of equal rewards in another order may differ by.
const rounding = 1e-9

func (f *Figure) above() bool { return float64(f.Low) > rounding }
func (f *Figure) below() bool { return float64(f.High) < -rounding }
