package proof

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/rollout"
	"vagen/train/track"
)

// sampled is an episode of one conversation with response tokens.
func sampled(t *testing.T, tokens []int32, logProbs []float32) []*rollout.Trajectory {
	var r rollout.Row
	require.NoError(t, r.AppendResponse(tokens...))
	r.LogProbs = logProbs
	return []*rollout.Trajectory{{Rows: []rollout.Row{r}}}
}

// TestAnotherMachineIsComparedWithinTolerances: log-probs up to the first token that
// differs, and metrics only if no token differs.
func TestAnotherMachineIsComparedWithinTolerances(t *testing.T) {
	was := sampled(t, []int32{1, 2, 3}, []float32{-1, -2, -3})
	metrics := func(x float64) track.Metrics { return track.Metrics{"actor/grad_norm": x, "time/step": x} }
	var none Closeness
	none.AddEpisodes([]*rollout.Trajectory{nil, nil}, []*rollout.Trajectory{nil, was[0]})
	require.Equal(t, Closeness{}, none, "episodes that were not played")
	for _, x := range []struct {
		is     []*rollout.Trajectory
		metric float64
		limit  float64
		want   string
	}{
		{was, 1, LogProbTolerance, ""},
		{sampled(t, []int32{1, 2, 3}, []float32{-1.0005, -2, -3}), 1.005, LogProbTolerance, ""},
		{sampled(t, []int32{1, 2, 3}, []float32{-1.01, -2, -3}), 1, LogProbTolerance,
			"log-prob: the largest difference is 0.01, at most 0.001 is allowed"},
		{sampled(t, []int32{1, 2, 3}, []float32{-1.01, -2, -3}), 1, LogProbTolerance * BFloat16Factor, ""},
		{sampled(t, []int32{1, 2, 3}, []float32{float32(math.NaN()), -2, -3}), 1, LogProbTolerance,
			"log-prob: the largest difference is NaN"},
		{sampled(t, []int32{1, 5, 3}, []float32{-1, -7, -9}), 2, LogProbTolerance, ""},
		{sampled(t, []int32{4, 2, 3}, []float32{-1, -2, -3}), 1, LogProbTolerance, "no token is equal"},
		{was, 1.5, LogProbTolerance, "actor/grad_norm: the relative difference is 0.33, at most 0.01 is allowed"},
		{was, math.NaN(), LogProbTolerance, "actor/grad_norm: the relative difference is +Inf"},
	} {
		var c Closeness
		c.AddEpisodes(was, x.is)
		c.AddMetrics(metrics(1), metrics(x.metric))
		err := c.Within(1, x.limit)
		if x.want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, x.want)
	}
}
