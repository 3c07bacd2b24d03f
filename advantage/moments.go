package advantage

import "math"

// Moments are count, mean and spread of a set of numbers.
type Moments struct {
	N    int     // how many
	Mean float64 // 0 for none
	M2   float64 // sum of squared distances to the mean
}

// momentsOf returns the moments of the numbers under the mask, or of all without one.
func momentsOf(x []float32, mask []bool) Moments {
	var s shifted
	for t, v := range x {
		if mask == nil || mask[t] {
			s.add(float64(v))
		}
	}
	return s.moments()
}

// shifted sums numbers and their squares relative to the first of them. As no member of a set
// of n is further than √n deviations from the mean, the variance loses at most n roundings.
type shifted struct {
	n             int
	shift, s1, s2 float64
}

func (s *shifted) add(x float64) {
	if s.n == 0 {
		s.shift = x
	}
	d := x - s.shift
	s.n++
	s.s1 += d
	s.s2 += float64(d * d)
}

func (s *shifted) moments() Moments {
	if s.n == 0 {
		return Moments{}
	}
	n := float64(s.n)
	return Moments{N: s.n, Mean: s.shift + s.s1/n, M2: max(0, s.s2-s.s1*(s.s1/n))}
}

// Variance returns the unbiased variance, M2/(N−1), and NaN for fewer than two
// numbers.
func (m Moments) Variance() float64 {
	if m.N < 2 {
		return math.NaN()
	}
	return m.M2 / float64(m.N-1)
}
