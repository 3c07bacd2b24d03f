package rollout_test

import (
	"context"
	"fmt"

	"vagen/advantage"
	"vagen/env"
	"vagen/env/frozenlake"
	"vagen/mask"
	"vagen/policy"
	"vagen/reward"
	"vagen/rollout"
)

// walker is a policy without a model: its response is always the same.
type walker struct{}

func (walker) Generate(_ context.Context, prompts []policy.Prompt, _ policy.Sampling) ([]policy.Completion, error) {
	out := make([]policy.Completion, len(prompts))
	for i := range out {
		out[i] = policy.Completion{Text: "<think>There.</think><answer>Down,Right</answer>", Stop: policy.StopEnd}
	}
	return out, nil
}

func (walker) Forget(...uint64) {}

// A player needs a policy and environments. The trajectory of each episode holds its
// turns and why it ended.
func ExamplePlayer_Play() {
	var envs env.Registry
	if err := envs.Register("frozenlake", frozenlake.FromConfig); err != nil {
		fmt.Println(err)
		return
	}
	player := rollout.Player{Policy: walker{}, Envs: &envs, MaxTurns: 3}
	trajectories, _, err := player.Play(context.Background(), []rollout.Episode{
		{Env: "frozenlake", Config: map[string]any{"desc": []any{"SFF", "FFF", "FFG"}}},
		{Env: "frozenlake", Config: map[string]any{"desc": []any{"SFF", "FHF", "FFG"}}, Group: 1},
		{Env: "frozenlake", Config: map[string]any{"size": 1}, Group: 2},
	}, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range trajectories {
		fmt.Printf("%s after %d turns, success %t, return %.2f\n", t.End, len(t.Turns), t.Success, t.Return())
	}
	// Output:
	// done after 2 turns, success true, return 1.04
	// done after 1 turns, success false, return 0.02
	// setup_error after 0 turns, success false, return 0.00
}

// Rewards over finished trajectories, and the batch that an estimator and a learner take, in
// a program without a configuration: here an answer is worth more the shorter it is.
func ExampleNewBatch() {
	var played []*rollout.Trajectory // as Player.Play returns them
	for i, reply := range [][]int32{{7, 8, 9}, {7, 9}} {
		t := &rollout.Trajectory{Episode: rollout.Episode{Index: i}, End: rollout.EndDone}
		var row rollout.Row
		must(row.AppendContext(mask.Prompt, 1, 2))
		must(row.AppendResponse(reply...))
		row.LogProbs = make([]float32, row.Len())
		t.Rows, t.Turns = []rollout.Row{row}, []rollout.Turn{{Response: "Right"}}
		played = append(played, t)
	}
	for _, t := range played {
		for k := range t.Turns {
			t.Turns[k].Reward = reward.Parts{{Name: "short", Value: 1 / float64(t.Rows[0].Len())}}
		}
	}
	b, err := rollout.NewBatch(played, mask.Options{}, reward.PerTurn)
	must(err)
	var out advantage.Result
	must(advantage.Default[advantage.GRPO]().Estimate(&out, &b.Steps))
	fmt.Println(b.Rows.Tokens, b.Rows.Offsets)
	fmt.Printf("%.2f\n", out.Advantages)
	// Output:
	// [1 2 7 8 9 1 2 7 9] [0 5 9]
	// [0.00 0.00 -0.71 -0.71 -0.71 0.00 0.00 0.71 0.71]
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
