package advantage

import "math"

// Moments are count, mean and spread of a set of numbers.
type Moments struct {
	N    int     // how many
	Mean float64 // 0 for none
	M2   float64 // sum of squared distances to the mean
}

func momentsOf[T number](x []T, mask []bool) Moments {
	var m Moments
	sum := 0.0
	for t, v := range x {
		if mask == nil || mask[t] {
			m.N++
			sum += float64(v)
		}
	}
	if m.N == 0 {
		return m
	}
	m.Mean = sum / float64(m.N)
	for t, v := range x {
		if mask == nil || mask[t] {
			d := float64(v) - m.Mean
			m.M2 += float64(d * d)
		}
	}
	return m
}

// Variance returns the unbiased variance, M2/(N−1), and NaN for fewer than two
// numbers.
func (m Moments) Variance() float64 {
	if m.N < 2 {
		return math.NaN()
	}
	return m.M2 / float64(m.N-1)
}

// merge adds the moments of another set (Chan, Golub and LeVeque 1979). Merging
// in row order gives one result for any number of workers.
func (m *Moments) merge(o Moments) {
	if o.N == 0 {
		return
	}
	a, b := float64(m.N), float64(o.N)
	d := o.Mean - m.Mean
	m.N += o.N
	m.Mean += d * (b / (a + b))
	m.M2 += o.M2 + d*d*(a*b/(a+b))
}
