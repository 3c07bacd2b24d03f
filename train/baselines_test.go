package train

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	_ "vagen/internal/linktest"
	"vagen/policy"
	"vagen/rollout"
)

// TestBaselinesSurviveACheckpoint, and each environment has its own.
func TestBaselinesSurviveACheckpoint(t *testing.T) {
	p := progress{baselines: map[string]float64{"maze": 0.5}}
	s, err := p.state(&StabilityState{})
	require.NoError(t, err)
	raw, err := json.Marshal(s)
	require.NoError(t, err)
	var q progress
	require.NoError(t, json.Unmarshal(raw, &q.from))
	require.NoError(t, q.resume(1))
	require.Equal(t, p.baselines, q.baselines)

	b := &batch{
		rows: policy.Rows{Offsets: []int{0, 0, 0, 0}}, trajectory: []int{0, 1, 2},
		used: []*rollout.Trajectory{{Episode: rollout.Episode{Env: "pond"}}, {Episode: rollout.Episode{Env: "maze"}},
			{Episode: rollout.Episode{Env: "pond"}}},
	}
	b.takeBaselines(q.baselines)
	require.Equal(t, []int{0, 1, 0}, b.adv.Agent)
	require.Equal(t, []float64{0, 0.5}, b.adv.Running)
	b.baselines["pond"] = 1
	require.NotContains(t, q.baselines, "pond", "a step that fails changes nothing")
}
