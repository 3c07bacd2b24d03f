package advantage

import "vagen/internal/floats"

// Moments are count, mean and spread of a set of numbers.
type Moments struct {
	N    int     // how many
	Mean float64 // 0 for none
	M2   float64 // sum of squared distances to the mean
}

// momentsOf returns the moments of the numbers under the mask, or of all without one.
func momentsOf(x []float32, mask []bool) Moments {
	var s floats.Sums
	for t, v := range x {
		if mask == nil || mask[t] {
			s.Add(float64(v))
		}
	}
	return Moments(s.Moments())
}

// Variance returns the unbiased variance, M2/(N−1), and NaN for fewer than two
// numbers.
func (m Moments) Variance() float64 { return floats.Moments(m).Variance() }
