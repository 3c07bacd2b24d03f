package floats

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFinite(t *testing.T) {
	for _, x := range []float64{0, -1, math.MaxFloat64, math.SmallestNonzeroFloat64} {
		require.True(t, Finite(x))
	}
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		require.False(t, Finite(x))
		require.False(t, Finite(float32(x)))
	}
}

func TestMomentsByHand(t *testing.T) {
	x := []float64{1, 2, 6, 3}
	all := MomentsOf(x)
	require.Equal(t, Moments{N: 4, Mean: 3, M2: 14}, all)
	require.InDelta(t, 14./3, all.Variance(), 1e-15)
	for at := range len(x) + 1 {
		m := MomentsOf(x[:at])
		m.Merge(MomentsOf(x[at:]))
		require.Equal(t, all.N, m.N)
		require.InDelta(t, all.Mean, m.Mean, 1e-15)
		require.InDelta(t, all.M2, m.M2, 1e-14)
	}
	require.Equal(t, Moments{}, MomentsOf[float64](nil))
	require.True(t, math.IsNaN(MomentsOf(x[:1]).Variance()))
	require.Zero(t, MomentsOf([]float32{0.1, 0.1, 0.1}).M2)
	far := MomentsOf([]float64{1e9, 1e9 + 1, 1e9 + 2}) // a sum of plain squares would lose all digits
	require.Equal(t, Moments{N: 3, Mean: 1e9 + 1, M2: 2}, far)
}
