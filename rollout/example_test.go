package rollout_test

import (
	"context"
	"fmt"

	"vagen/env"
	"vagen/env/frozenlake"
	"vagen/policy"
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
