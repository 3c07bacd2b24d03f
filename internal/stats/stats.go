// Package stats has the intervals and tests of the studies.
package stats

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"vagen/rollout/evaluate"
)

// Level of tests.
const Level = 0.05

// EstimateOf is the mean with its 95 % confidence interval, by Student's t over runs.
func EstimateOf(x []float64) evaluate.Estimate { return evaluate.MeanOf(x, evaluate.Level) }

// Paired compares runs that share a seed: the mean of a−b, and the two-sided
// p-value of the paired t-test. If all differences are equal, the p-value is 0,
// or 1 if they are 0.
func Paired(a, b []float64) (diff evaluate.Estimate, p float64) {
	d := make([]float64, len(a))
	for i := range d {
		d[i] = a[i] - b[i]
	}
	diff = EstimateOf(d)
	mean, std := stat.MeanStdDev(d, nil)
	switch {
	case std > 0:
		t := math.Abs(mean) / (std / math.Sqrt(float64(len(d))))
		return diff, 2 * distuv.StudentsT{Sigma: 1, Nu: float64(len(d) - 1)}.Survival(t)
	case mean == 0:
		return diff, 1
	}
	return diff, 0
}

// Holm corrects p-values for multiple tests (Holm 1979): the k-th smallest of n is
// multiplied by n−k+1, the results keep their order, and none exceeds 1.
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	out := make([]float64, len(p))
	last := 0.0
	for k, i := range order {
		last = max(last, min(1, p[i]*float64(len(p)-k)))
		out[i] = last
	}
	return out
}
