package summary

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/train/track"
)

// TestTheBestOfDrawsIsExact: for 0, 0, 0 and 1 the best of two draws with replacement
// is 1 with probability 7/16, and the worst with 1/16.
func TestTheBestOfDrawsIsExact(t *testing.T) {
	m := track.Metrics{}
	AtN(m, "a", "reward", [][]float64{{0, 1, 0, 0}, {2, 2, 2, 2}}, 4)
	for name, want := range map[string]float64{
		"val-core/a/reward/mean@4": (0.25 + 2) / 2, "val-aux/a/reward/std@4": math.Sqrt(3.0/16) / 2,
		"val-aux/a/reward/best@2/mean": (7.0/16 + 2) / 2, "val-aux/a/reward/worst@2/mean": (1.0/16 + 2) / 2,
		"val-core/a/reward/best@4/mean": (1 - 81.0/256 + 2) / 2, "val-aux/a/reward/worst@4/mean": (1.0/256 + 2) / 2,
	} {
		require.InDelta(t, want, m[name], 1e-12, name)
	}
}
