package proof_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/train/proof"
	"vagen/train/run"
)

// Package train/run records every run. Verify compares the files of a run with its record.
func ExampleVerify() {
	tmp, err := os.MkdirTemp("", "run")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(tmp)
	ctx, dir := context.Background(), filepath.Join(tmp, "run")
	if err := trainIn(ctx, dir); err != nil {
		fmt.Println(err)
		return
	}
	verify := func() {
		r, err := proof.Verify(ctx, dir)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(len(r.Steps()), "steps,", len(r.Faults()), "faults")
		for _, c := range r.Faults() {
			fmt.Println(c.What+":", c.Detail)
		}
	}
	verify()
	if err := os.WriteFile(filepath.Join(dir, "metrics.jsonl"), nil, 0o644); err != nil {
		fmt.Println(err)
		return
	}
	verify()
	// Output:
	// 3 steps, 0 faults
	// 3 steps, 1 faults
	// metrics.jsonl: 4 events are missing at the end, the first is step of step 1
}

func trainIn(ctx context.Context, dir string) error {
	games, err := new(traintest.Arena).Open()
	if err != nil {
		return err
	}
	r, err := run.Open(ctx, traintest.Small(), run.Options{
		Dir: dir, Envs: games,
		Learner: func(context.Context, string) (policy.Learner, error) { return traintest.Guesser(), nil },
	})
	if err != nil {
		return err
	}
	return errors.Join(r.Train(ctx), r.Close())
}
