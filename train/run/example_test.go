package run_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/train/run"
)

// Open builds a run from a configuration. Options replace parts of it: here the learner
// and an environment.
func ExampleOpen() {
	tmp, err := os.MkdirTemp("", "run")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(tmp)
	games, err := new(traintest.Arena).Open()
	if err != nil {
		fmt.Println(err)
		return
	}
	c := traintest.Small() // from config.Load in a program
	r, err := run.Open(context.Background(), c, run.Options{
		Dir: filepath.Join(tmp, "run"), Envs: games,
		Learner: func(context.Context, string) (policy.Learner, error) { return traintest.Guesser(), nil },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = r.Train(context.Background())
	fmt.Println(err, r.Close())
	_, err = os.Stat(filepath.Join(r.Folder.Path, "metrics.jsonl"))
	fmt.Println(err)
	// Output:
	// <nil> <nil>
	// <nil>
}
