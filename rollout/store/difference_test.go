package store

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/policy"
	"vagen/reward"
	"vagen/rollout"
)

// twoTurns is an episode of two turns in one conversation.
func twoTurns(t *testing.T) *rollout.Trajectory {
	tr := &rollout.Trajectory{Episode: rollout.Episode{Env: "x", Seed: 7, Group: 2, Index: 1},
		Rows: make([]rollout.Row, 1), End: rollout.EndDone, Success: true,
		Metrics: env.Metrics{"m": 1}}
	r := &tr.Rows[0]
	for _, turn := range [][]int32{{5, 6}, {7}} {
		require.NoError(t, r.AppendContext(1, 1, 2))
		require.NoError(t, r.AppendResponse(turn...))
		tr.Turns = append(tr.Turns, rollout.Turn{Response: "go", Stop: policy.StopEnd,
			Reward: reward.Parts{{Name: "goal", Value: 0.5}}, Metrics: env.Metrics{"a": 2}})
	}
	r.LogProbs = []float32{0, 0, -1, -2, 0, 0, -3}
	r.Images = []policy.Image{{Hash: [32]byte{1}}}
	return tr
}

// rewrite gives an episode other tokens: contexts and responses in turn.
func rewrite(t *testing.T, o *rollout.Trajectory, pieces ...[]int32) {
	r := rollout.Row{Images: o.Rows[0].Images}
	for i, piece := range pieces {
		if i%2 == 0 {
			require.NoError(t, r.AppendContext(1, piece...))
		} else {
			require.NoError(t, r.AppendResponse(piece...))
		}
	}
	r.LogProbs = o.Rows[0].LogProbs[:r.Len()]
	o.Rows[0] = r
}

// TestTheFirstDifferenceIsFound changes an episode in one place at a time. All places are those of
// TestEverythingThatIsStoredIsCompared.
func TestTheFirstDifferenceIsFound(t *testing.T) {
	d, err := FirstDifference([]*rollout.Trajectory{twoTurns(t), twoTurns(t)},
		[]*rollout.Trajectory{twoTurns(t), twoTurns(t)})
	require.NoError(t, err)
	require.Nil(t, d)
	for want, spoil := range map[string]func(*rollout.Trajectory){
		"episode 1 (group 2, index 1), turn 1, conversation 0, position 6: log-prob of token 7 was -3, is -4": func(
			o *rollout.Trajectory) {
			o.Rows[0].LogProbs[6] = -4
		},
		"episode 1 (group 2, index 1), turn 0, conversation 0, position 2: token was 5, is 9": func(o *rollout.Trajectory) {
			rewrite(t, o, []int32{1, 2}, []int32{9, 6}, []int32{1, 2}, []int32{7})
		},
		"turn 1, conversation 0, position 5: token was 2, is 3": func(o *rollout.Trajectory) {
			rewrite(t, o, []int32{1, 2}, []int32{5, 6}, []int32{1, 3}, []int32{7})
		},
		"length of rows[0].tokens was 7, is 4": func(o *rollout.Trajectory) {
			rewrite(t, o, []int32{1, 2}, []int32{5, 6})
		},
		"rows[0].pieces[1].length was 2, is 5": func(o *rollout.Trajectory) {
			rewrite(t, o, []int32{1, 2}, []int32{5, 6, 1, 2, 7})
		},
		`rows[0].images[0].hash was "01000000`:   func(o *rollout.Trajectory) { o.Rows[0].Images[0].Hash[0] = 3 },
		`turns[1].response was "go", is "stop"`:  func(o *rollout.Trajectory) { o.Turns[1].Response = "stop" },
		`turns[0].observation was "", is "wall"`: func(o *rollout.Trajectory) { o.Turns[0].Observation.Text = "wall" },
		"turns[0].reward[0].value was 0.5, is 1": func(o *rollout.Trajectory) {
			o.Turns[0].Reward = reward.Parts{{Name: "goal", Value: 1}}
		},
		"length of turns was 2, is 1":  func(o *rollout.Trajectory) { o.Turns = o.Turns[:1] },
		"metrics[0].value was 1, is 2": func(o *rollout.Trajectory) { o.Metrics = env.Metrics{"m": 2} },
	} {
		o := twoTurns(t)
		spoil(o)
		d, err := FirstDifference([]*rollout.Trajectory{twoTurns(t), twoTurns(t)}, []*rollout.Trajectory{twoTurns(t), o})
		require.NoError(t, err)
		require.NotNil(t, d, want)
		require.Contains(t, d.String(), want)
	}
	d, err = FirstDifference([]*rollout.Trajectory{twoTurns(t)}, nil)
	require.NoError(t, err)
	require.Equal(t, "number of episodes", d.What)
}
