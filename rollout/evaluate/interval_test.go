package evaluate

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSharesAreWilsons: numbers of scipy's binomtest(k, n).proportion_ci(method="wilson").
func TestSharesAreWilsons(t *testing.T) {
	for _, c := range []struct {
		k, n      int
		low, high float64
	}{{0, 10, 0, 0.2775328}, {10, 10, 0.7224672, 1}, {5, 10, 0.2365931, 0.7634069}, {41, 128, 0.2457302, 0.4053659}} {
		e := ShareOf(c.k, c.n)
		require.InDelta(t, float64(c.k)/float64(c.n), e.Mean, 0)
		require.InDelta(t, c.low, e.Low, 1e-6) // the digits that are given
		require.InDelta(t, c.high, e.High, 1e-6)
	}
	for _, c := range [][2]int{{0, 0}, {1, -1}, {-1, 2}, {3, 2}} {
		require.True(t, math.IsNaN(ShareOf(c[0], c[1]).Mean))
	}
}

// TestMeansAreStudents: by hand, t of 3 degrees of freedom is 3.182446, s is √(5/3).
func TestMeansAreStudents(t *testing.T) {
	e := MeanOf([]float64{1, 2, 3, 4}, Level)
	half := 3.182446 * math.Sqrt(5.0/3/4)
	require.InDelta(t, 2.5, e.Mean, 0)
	require.InDelta(t, 2.5-half, e.Low, 1e-6)
	require.InDelta(t, 2.5+half, e.High, 1e-6)
	require.Equal(t, Estimate{Mean: 2, Low: 2, High: 2, N: 2}, MeanOf([]float64{2, 2}, Level))
	one := MeanOf([]float64{7}, Level)
	require.True(t, one.Mean == 7 && math.IsNaN(one.Low) && one.N == 1)
	for _, level := range []float64{-1, 0, 1, 2, math.NaN()} {
		e := MeanOf([]float64{1, 3}, level)
		require.True(t, e.Mean == 2 && math.IsNaN(e.Low) && math.IsNaN(e.High) && e.N == 2, level)
	}
	raw, err := json.Marshal([]Estimate{one, MeanOf(nil, Level)})
	require.NoError(t, err)
	require.JSONEq(t, `[{"mean":7,"low":null,"high":null,"n":1},{"mean":null,"low":null,"high":null,"n":0}]`, string(raw))
	require.Equal(t, []string{"7.00", "-", "2.00 [2.00, 2.00]"},
		[]string{one.String(), MeanOf(nil, Level).String(), MeanOf([]float64{2, 2}, Level).String()})
}

// TestIntervalsHoldAsOftenAsTheySay draws samples whose truth is known. Of 2000
// intervals of 95 %, 1900 hold it, give or take three times √(2000·0.05·0.95) ≈ 10.
// Wilson's may be off by its own discreteness, a percent here.
func TestIntervalsHoldAsOftenAsTheySay(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	means, shares := 0, 0
	for range 2000 {
		xs, k := make([]float64, 8), 0
		for i := range xs {
			xs[i] = r.NormFloat64()
		}
		for range 50 {
			if r.Float64() < 0.2 {
				k++
			}
		}
		if e := MeanOf(xs, Level); e.Low <= 0 && 0 <= e.High {
			means++
		}
		if e := ShareOf(k, 50); e.Low <= 0.2 && 0.2 <= e.High {
			shares++
		}
	}
	require.InDelta(t, 1900, means, 30)
	require.InDelta(t, 1900, shares, 50)
}
