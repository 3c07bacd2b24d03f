package filter

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/floats"
)

// huge has groups with standard deviations 1e200, ½, 5e250, 0 and 1e160: the
// variances of three of them are beyond float64.
func huge() *Batch {
	return &Batch{
		Group:  []string{"a", "a", "b", "b", "c", "c", "d", "d", "e", "e"},
		Return: []float64{-1e200, 1e200, 0, 1, 0, 1e251, math.MaxFloat64, math.MaxFloat64, 1e160, -1e160},
	}
}

// TestHugeReturnsAreRankedAndMeasured: the square of a finite return may be
// infinite. Groups are still ranked by their variance, and metrics stay finite.
func TestHugeReturnsAreRankedAndMeasured(t *testing.T) {
	for name, c := range map[string]struct {
		f    Filter
		keep []int
	}{
		"one":              {TopK{K: 1}, []int{4, 5}},
		"two":              {TopFraction{Fraction: 0.4}, []int{0, 1, 4, 5}},
		"three":            {TopK{K: 3, DDOF: 1}, []int{0, 1, 4, 5, 8, 9}},
		"four":             {TopK{K: 4}, []int{0, 1, 2, 3, 4, 5, 8, 9}},
		"most variance":    {TopP{P: 0.9}, []int{4, 5}},
		"a share of best":  {MinP{P: 0.1}, []int{4, 5}},
		"all but the same": {DropEqual{}, []int{0, 1, 2, 3, 4, 5, 8, 9}},
	} {
		got := run(t, c.f, huge())
		require.Equal(t, c.keep, got.Keep, "%s: kept", name)
		for metric, x := range got.Metrics {
			require.True(t, floats.Finite(x), "%s: %s is %v", name, metric, x)
		}
	}
	got := run(t, TopP{P: 0.9}, huge()).Metrics
	require.Equal(t, 1.0, got["filter/train/top_p/cumulative_variance_ratio"])
	require.Equal(t, math.MaxFloat64, got["filter/train/original/max_variance"])
}

// TestVariancesWhoseSumOverflowsAreScaled: each variance fits, their sum does not.
func TestVariancesWhoseSumOverflowsAreScaled(t *testing.T) {
	b := &Batch{Group: []string{"a", "a", "b", "b"}, Return: []float64{-1.2e154, 1.2e154, 1.3e154, -1.3e154}}
	got := run(t, TopP{P: 0.5}, b)
	require.Equal(t, []int{2, 3}, got.Keep, "group b")
	share := 1.3 * 1.3 / (1.3*1.3 + 1.2*1.2)
	require.InDelta(t, share, got.Metrics["filter/train/top_p/cumulative_variance_ratio"], 1e-12)
	groups, err := Groups(b, 0)
	require.NoError(t, err)
	want := (1.2e154/2*1.2e154 + 1.3e154/2*1.3e154)
	require.InEpsilon(t, want, MeanVariance(groups), 1e-12)
}

// TestTrajectoriesThatAddUpToInfinityAreRefused: rows may be finite where their
// sum is not.
func TestTrajectoriesThatAddUpToInfinityAreRefused(t *testing.T) {
	b := &Batch{Group: []string{"a", "a", "a"}, Trajectory: []string{"x", "x", "y"},
		Return: []float64{math.MaxFloat64, math.MaxFloat64, 0}}
	var r Result
	require.ErrorIs(t, (TopK{K: 1}).Filter(&r, b), ErrNotFinite)
}
