package main

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"vagen/internal/cli"
	"vagen/train/replay"
	"vagen/train/run"
)

// errDiffers makes the command fail if a replay differs from the record.
var errDiffers = errors.New("the replay differs from the record")

func replayCommand() *cli.Command {
	return &cli.Command{
		Name: "replay", Args: "RUN [key=value …]", Min: 1, Max: -1,
		About: "Replay a step of a run, and show its first difference from the record.",
		Help: `RUN is the folder of a run with trainer.rollout_data_dir; it is not changed. The
replay starts from the newest checkpoint before the step, or from the beginning, with
the configuration of the run. Tokens and log-probs of episodes are compared bit by bit,
then all other stored data, scores (trainer.rollout_data_scores) and the metrics.
key=value sets a secret again, such as env.config.token, because files of a run contain
no secrets. Episodes that servers generated are not played again: the recorded ones are
used. Use the working directory of the run, so that relative paths have the same
meaning. The command fails if anything differs, which can happen on another processor or
backend.`,
		JSON: "write JSON: what was compared, and the first difference",
		Setup: func(f *flag.FlagSet) cli.Run {
			step := f.Int("step", 0, "training `step` to replay")
			return func(ctx context.Context, c *cli.Call) error {
				if *step < 1 {
					return cli.Usagef("--step is %d, must be 1 or more", *step)
				}
				r, err := replay.Step(ctx, c.Args[0], c.Args[1:], *step, nil, c.Log)
				if err != nil {
					return asUsage(err, badRun...)
				}
				if err := show(c, r); err != nil {
					return err
				}
				if !r.Same() {
					return fmt.Errorf("%w: step %d of %s", errDiffers, *step, c.Args[0])
				}
				return nil
			}
		},
	}
}

// badRun are the errors about the folder of a run, its steps, and overrides of its configuration.
var badRun = append(badPath, replay.ErrStep, run.ErrOtherConfig)

func show(c *cli.Call, r *replay.Result) error {
	if c.AsJSON {
		return c.JSON(r)
	}
	from := "the beginning"
	if r.From > 0 {
		from = fmt.Sprint("the checkpoint of step ", r.From)
	}
	fmt.Fprintf(c.Out, "step %d replayed from %s: %d episodes with %d tokens\n", r.Step, from, r.Episodes, r.Tokens)
	if r.First != nil {
		fmt.Fprintf(c.Out, "first difference: %v\n", r.First)
	}
	for _, m := range r.Metrics {
		fmt.Fprintf(c.Out, "metric %s\n", m)
	}
	if !r.Same() {
		return nil
	}
	_, err := fmt.Fprintln(c.Out, "everything equals the record")
	return err
}
