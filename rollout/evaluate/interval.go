package evaluate

import (
	"encoding/json"
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"vagen/internal/floats"
)

// Level is the confidence level of the intervals in reports.
const Level = 0.95

// Estimate is a figure of a sample with its interval, of 95 % in reports: Wilson's for
// shares, Student's for means. Low and High are NaN (null in JSON) if the sample does not
// determine them, Mean if it is empty.
type Estimate struct {
	Mean, Low, High float64
	N               int // size of the sample
}

// ShareOf is the share of successes in n trials, with Wilson's score interval (1927) of
// 95 %, which keeps its level also for few trials and shares near 0 and 1:
//
//	(p + z²/2n ± z·√(p(1−p)/n + z²/4n²)) / (1 + z²/n)
func ShareOf(successes, n int) Estimate {
	if n < 1 || successes < 0 || successes > n {
		return unknown
	}
	z := distuv.UnitNormal.Quantile(0.5 + Level/2)
	p, m := float64(successes)/float64(n), float64(n)
	mid, scale := p+z*z/(2*m), 1+z*z/m
	half := z * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	return Estimate{Mean: p, Low: max(0, (mid-half)/scale), High: min(1, (mid+half)/scale), N: n}
}

var unknown = Estimate{Mean: math.NaN(), Low: math.NaN(), High: math.NaN()}

// MeanOf is the mean of a sample with Student's interval of a level in (0, 1), such as
// Level: mean ± t·s/√n, where s is the standard deviation with divisor n−1 and t has n−1
// degrees of freedom. A single number has no interval, nor has another level. Sums are computed in the order of
// xs.
func MeanOf(xs []float64, level float64) Estimate {
	m := floats.MomentsOf(xs)
	switch {
	case m.N == 0:
		return unknown
	case m.N == 1, !(level > 0 && level < 1):
		return Estimate{Mean: m.Mean, Low: math.NaN(), High: math.NaN(), N: m.N}
	}
	n := float64(m.N)
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Quantile(0.5 + level/2)
	half := t * math.Sqrt(m.Variance()/n)
	return Estimate{Mean: m.Mean, Low: m.Mean - half, High: m.Mean + half, N: m.N}
}

var _ json.Marshaler = Estimate{}

// MarshalJSON writes null for NaN.
func (e Estimate) MarshalJSON() ([]byte, error) {
	known := func(x float64) *float64 {
		if !floats.Finite(x) {
			return nil
		}
		return &x
	}
	return json.Marshal(struct {
		Mean *float64 `json:"mean"`
		Low  *float64 `json:"low"`
		High *float64 `json:"high"`
		N    int      `json:"n"`
	}{known(e.Mean), known(e.Low), known(e.High), e.N})
}

// String shows the figure with its interval in brackets.
func (e Estimate) String() string {
	switch {
	case math.IsNaN(e.Mean):
		return "-"
	case math.IsNaN(e.Low):
		return digits(e.Mean)
	}
	return fmt.Sprintf("%s [%s, %s]", digits(e.Mean), digits(e.Low), digits(e.High))
}

// digits formats three significant digits, and all integer digits of large numbers.
func digits(x float64) string {
	switch a := math.Abs(x); {
	case a >= 100:
		return fmt.Sprintf("%.0f", x)
	case a >= 10:
		return fmt.Sprintf("%.1f", x)
	case a >= 1:
		return fmt.Sprintf("%.2f", x)
	}
	return fmt.Sprintf("%.3g", x)
}
