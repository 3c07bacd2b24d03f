// Package floats has what several packages compute from floating-point numbers.
package floats

import "math"

// Float is a floating-point number.
type Float interface{ ~float32 | ~float64 }

// Finite reports whether x is neither NaN nor infinite.
func Finite[F Float](x F) bool { return x-x == 0 }

// FromHalf widens an IEEE 754 binary16, exactly.
func FromHalf(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	mant := uint32(h & 0x3ff)
	switch exp := uint32(h>>10) & 0x1f; exp {
	case 0: // zero and subnormals: mant × 2^-24
		v := float32(mant) * (1.0 / (1 << 24))
		return math.Float32frombits(sign | math.Float32bits(v))
	case 31:
		return math.Float32frombits(sign | 0x7f800000 | mant<<13)
	default:
		return math.Float32frombits(sign | (exp+127-15)<<23 | mant<<13)
	}
}

// Moments are count, mean and spread of a set of numbers.
type Moments struct {
	N    int     `json:"count"` // how many
	Mean float64 `json:"mean"`  // 0 for none
	M2   float64 `json:"m2"`    // sum of squared distances to the mean
}

// MomentsOf returns the moments of numbers, summed in their order.
func MomentsOf[F Float](x []F) Moments {
	var s Sums
	for _, v := range x {
		s.Add(float64(v))
	}
	return s.Moments()
}

// Variance returns the unbiased variance, M2/(N−1), and NaN for fewer than two numbers.
func (m Moments) Variance() float64 {
	if m.N < 2 {
		return math.NaN()
	}
	return m.M2 / float64(m.N-1)
}

// Merge adds the numbers of other (Chan, Golub and LeVeque, 1979).
func (m *Moments) Merge(other Moments) {
	if other.N == 0 {
		return
	}
	a, b := float64(m.N), float64(other.N)
	d := other.Mean - m.Mean
	m.Mean += d * b / (a + b)
	m.M2 += other.M2 + d*d*a*b/(a+b)
	m.N += other.N
}

// Sums adds up numbers and their squares relative to the first of them. As no member of a set
// of n is further than √n deviations from the mean, the variance loses at most n roundings.
type Sums struct {
	n                    int
	shift, first, second float64
}

// Add adds one number.
func (s *Sums) Add(x float64) {
	if s.n == 0 {
		s.shift = x
	}
	d := x - s.shift
	s.n++
	s.first += d
	s.second += float64(d * d)
}

// Moments returns the moments of what has been added.
func (s *Sums) Moments() Moments {
	if s.n == 0 {
		return Moments{}
	}
	n := float64(s.n)
	return Moments{N: s.n, Mean: s.shift + s.first/n, M2: max(0, s.second-s.first*(s.first/n))}
}
