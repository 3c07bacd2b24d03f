package train

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/rollout"
)

// TestBaselinesSurviveACheckpoint, and each environment has its own.
func TestBaselinesSurviveACheckpoint(t *testing.T) {
	p := progress{State: State{Baselines: map[string]float64{"maze": 0.5}}}
	s, err := p.state(&StabilityState{})
	require.NoError(t, err)
	raw, err := json.Marshal(s)
	require.NoError(t, err)
	var q progress
	require.NoError(t, json.Unmarshal(raw, &q.State))
	require.NoError(t, q.resume(1))
	require.Equal(t, p.Baselines, q.Baselines)

	b := &batch{Batch: rollout.Batch{
		Rows: policy.Rows{Offsets: []int{0, 0, 0, 0}}, Of: []int{0, 1, 2},
		Used: []*rollout.Trajectory{{Episode: rollout.Episode{Env: "pond"}}, {Episode: rollout.Episode{Env: "maze"}},
			{Episode: rollout.Episode{Env: "pond"}}},
	}}
	b.takeBaselines(q.Baselines)
	require.Equal(t, []int{0, 1, 0}, b.Steps.Agent)
	require.Equal(t, []float64{0, 0.5}, b.Steps.Running)
	b.baselines["pond"] = 1
	require.NotContains(t, q.Baselines, "pond", "a step that fails changes nothing")
}
