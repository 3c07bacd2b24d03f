package replay

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/train/track"
)

// TestMetricsOfOneSideSaySo instead of being compared with 0.
func TestMetricsOfOneSideSaySo(t *testing.T) {
	was := track.Metrics{"train/success": 0.5, "train/gone": 2, "train/same": 1, "train/nan": math.NaN(), "time/step": 1}
	is := track.Metrics{"train/success": 0.25, "train/added": 0, "train/same": 1, "train/nan": math.Inf(1), "time/step": 2}
	require.Equal(t, []string{
		"train/added: not recorded → 0", "train/gone: 2 → not computed", "train/success: 0.5 → 0.25",
	}, differing(was, is))
}

// TestAMeasurementClosesItsEnvironments, which keep judges and servers open.
func TestAMeasurementClosesItsEnvironments(t *testing.T) {
	closed, envs := 0, new(env.Registry)
	envs.OnClose(func() error { closed++; return nil })
	require.NoError(t, (&Credit{envs: envs}).Close())
	require.NoError(t, new(Credit).Close(), "those of the caller stay open")
	require.Equal(t, 1, closed)
}
