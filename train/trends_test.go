package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/train/track"
)

// TestCausesOfContextsAreInterruptions: servers and workers return them in place of the context's error.
func TestCausesOfContextsAreInterruptions(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	cause := errors.New("maintenance")
	require.False(t, interrupted(ctx, cause))
	stop(cause)
	require.True(t, interrupted(ctx, fmt.Errorf("played: %w", cause)))
	require.True(t, interrupted(ctx, ctx.Err()))
	require.False(t, interrupted(ctx, errors.New("another")))
	require.False(t, interrupted(ctx, nil))
}

func TestTrendsCompareStepsWithThoseBefore(t *testing.T) {
	var s TrendState
	at := func(step int, m track.Metrics) track.Metrics {
		s.addTrends(m)
		raw, err := json.Marshal(s) // as in a checkpoint
		require.NoError(t, err)
		s = TrendState{}
		require.NoError(t, json.Unmarshal(raw, &s))
		return m
	}
	for step := range 10 {
		m := at(step, track.Metrics{"response_length/mean": 40 + float64(step%2)*20, "actor/grad_norm": 2})
		require.NotContains(t, m, "trend/response_length")
	}
	m := at(10, track.Metrics{"response_length/mean": 10, "actor/grad_norm": math.NaN()})
	require.InDelta(t, 0.2, m["trend/response_length"], 1e-12)
	require.NotContains(t, m, "trend/grad_norm", "a step without an update changes nothing")
	m = at(11, track.Metrics{"actor/grad_norm": 500})
	require.InDelta(t, 250, m["trend/grad_norm"], 1e-12)
	require.NotContains(t, m, "trend/state_without_success", "there are no state rewards")
}

func TestStateRewardsThatRiseWhileSuccessFallsAreFound(t *testing.T) {
	last := func(paid, success func(step int) float64) float64 {
		var s TrendState
		m := track.Metrics{}
		for step := range 60 {
			m = track.Metrics{"train/reward/observation": paid(step) / 2, "train/reward/prediction": paid(step) / 2,
				"train/success": success(step)}
			s.addTrends(m)
			_, ok := m["trend/state_without_success"]
			require.Equal(t, step >= 39, ok)
		}
		require.Len(t, s.Paid, 40)
		return m["trend/state_without_success"]
	}
	rising := func(step int) float64 { return 1 + float64(step)/20 }
	falling := func(step int) float64 { return 0.9 - float64(step)/100 }
	require.InDelta(t, 0.2, last(rising, falling), 1e-9, "success fell by 0.2, and pay rose by more")
	require.Zero(t, last(rising, rising))
	require.Zero(t, last(falling, falling))
	require.Zero(t, last(falling, rising))
}
