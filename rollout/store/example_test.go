package store_test

import (
	"fmt"
	"os"
	"path/filepath"

	"vagen/env"
	"vagen/reward"
	"vagen/rollout"
	"vagen/rollout/store"
)

// Trajectories are written to a file and read back, for instance to inspect failed
// episodes.
func Example() {
	dir, err := os.MkdirTemp("", "store")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "step_1.parquet")
	played := []*rollout.Trajectory{{
		Episode: rollout.Episode{Env: "frozenlake", Seed: 3}, End: rollout.EndDone,
		Turns: []rollout.Turn{{
			Observation: env.Observation{Text: "P _ G"}, Response: "<answer>Right,Right</answer>",
			Reward: reward.Parts{{Name: "success", Value: 1}},
		}},
	}}
	if err := store.Save(path, 1, played); err != nil {
		fmt.Println(err)
		return
	}
	stored, err := store.Load(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range stored {
		fmt.Printf("step %d, %s, seed %d: %s, return %v\n", s.Step, s.Env, s.Seed, s.End, s.Return())
	}
	// Output:
	// step 1, frozenlake, seed 3: done, return 1
}
