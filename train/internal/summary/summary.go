// Package summary summarises the numbers of episodes as metrics in the names of VAGEN and verl.
package summary

import (
	"fmt"
	"math"
	"slices"

	"vagen/train/track"
)

// Spread writes mean, max and min; nothing if there are no numbers.
func Spread(m track.Metrics, name string, x []float64) {
	if len(x) == 0 {
		return
	}
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	m[name+"/mean"], m[name+"/max"], m[name+"/min"] = sum/float64(len(x)), slices.Max(x), slices.Min(x)
}

// AtN writes mean@n and std@n, and mean and std of the best and worst of k = 2, 4, …, n
// episodes of a level, averaged over the levels. verl estimates the latter from 1000 draws
// with replacement; here they are exact. The names of the reward's mean and best over all n
// start with val-core.
func AtN(m track.Metrics, source, variable string, levels [][]float64, n int) {
	if len(levels) == 0 {
		return
	}
	put := func(core bool, figure string, of func(x []float64) float64) {
		section := "val-aux"
		if core && variable == "reward" {
			section = "val-core"
		}
		sum := 0.0
		for _, x := range levels {
			sum += of(x)
		}
		m[section+"/"+source+"/"+variable+"/"+figure] = sum / float64(len(levels))
	}
	put(true, fmt.Sprintf("mean@%d", n), func(x []float64) float64 { mean, _ := drawn(x, 1, false); return mean })
	if n < 2 {
		return
	}
	put(false, fmt.Sprintf("std@%d", n), func(x []float64) float64 { _, std := drawn(x, 1, false); return std })
	for k := 2; ; k = min(2*k, n) {
		for _, side := range []string{"best", "worst"} {
			core := side == "best" && k == n
			put(core, fmt.Sprintf("%s@%d/mean", side, k), func(x []float64) float64 {
				mean, _ := drawn(x, k, side == "worst")
				return mean
			})
			put(core, fmt.Sprintf("%s@%d/std", side, k), func(x []float64) float64 {
				_, std := drawn(x, k, side == "worst")
				return std
			})
		}
		if k == n {
			return
		}
	}
}

// drawn returns mean and standard deviation of the largest, or smallest, of k draws with
// replacement: the i-th smallest of n numbers is the largest of the draws with probability
// (i/n)^k − ((i−1)/n)^k.
func drawn(x []float64, k int, least bool) (mean, std float64) {
	x = slices.Sorted(slices.Values(x))
	if least {
		slices.Reverse(x)
	}
	n := float64(len(x))
	square := 0.0
	for i, v := range x {
		p := math.Pow(float64(i+1)/n, float64(k)) - math.Pow(float64(i)/n, float64(k))
		mean += p * v
		square += p * v * v
	}
	return mean, math.Sqrt(max(0, square-mean*mean))
}
