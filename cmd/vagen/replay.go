package main

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"vagen/internal/cli"
	"vagen/train/run"
)

// errDiffers makes the command fail when a replay is not what was recorded.
var errDiffers = errors.New("the step is not what was recorded")

func replayCommand() *cli.Command {
	return &cli.Command{
		Name: "replay", Args: "RUN [key=value …]", Min: 1, Max: -1,
		About: "Play a step of a run again, and show where it first differs from what was recorded.",
		Help: `RUN is the folder of a run with trainer.rollout_data_dir, of which nothing is
changed. The step is reached from the newest checkpoint before it, or from the
beginning, with the configuration of the run; episodes are compared token by token
and to the last bit of their log-probs, then all else that is stored, and metrics. key=value
gives a secret anew, such as env.config.token, which no file of a run holds. Run it where
the run was begun, so that relative names of files mean the same. It fails when
anything differs, as it may on another processor or backend.`,
		Setup: func(f *flag.FlagSet) cli.Run {
			step := f.Int("step", 0, "training `step` to play again")
			asJSON := f.Bool("json", false, "write JSON: what was compared, and the first difference")
			return func(ctx context.Context, c *cli.Call) error {
				if *step < 1 {
					return cli.Usagef("--step is %d, must name a training step", *step)
				}
				r, err := run.Replay(ctx, c.Args[0], c.Args[1:], *step, nil, c.Log)
				if err != nil {
					return err
				}
				if err := show(c, r, *asJSON); err != nil {
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

func show(c *cli.Call, r *run.Replayed, asJSON bool) error {
	if asJSON {
		return c.JSON(r)
	}
	from := "the beginning"
	if r.From > 0 {
		from = fmt.Sprint("the checkpoint of step ", r.From)
	}
	fmt.Fprintf(c.Out, "step %d again, from %s: %d episodes with %d tokens\n", r.Step, from, r.Episodes, r.Tokens)
	if r.First != nil {
		fmt.Fprintf(c.Out, "first difference: %v\n", r.First)
	}
	for _, m := range r.Metrics {
		fmt.Fprintf(c.Out, "metric %s\n", m)
	}
	if !r.Same() {
		return nil
	}
	_, err := fmt.Fprintln(c.Out, "everything is as it was recorded")
	return err
}
