package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"

	"vagen/internal/cli"
	"vagen/train/replay"
)

// errFaults makes the command fail if a run does not equal its record.
var errFaults = errors.New("the run does not equal its record")

// errUnfinished makes the command fail if a run's record does not reach its end.
var errUnfinished = errors.New("the record does not reach the end of the run")

func verifyCommand() *cli.Command {
	return &cli.Command{
		Name: "verify", Args: "RUN [key=value …]", Min: 1, Max: -1,
		About: "Check the files of a run against its chained record, and replay some steps.",
		Help: `RUN is the folder of a run; it is not changed. Its proof.jsonl is a chain of hashes:
configuration, code, processor, model, plugin, metrics, episodes, checkpoints. All files
are compared with it, and steps drawn at random are replayed: --seed draws the same ones
again. A step can be
replayed if its episodes are stored (trainer.rollout_data_dir) and the checkpoint before
it exists. On the processor family and plugin of the run a replay must be equal bit by
bit, elsewhere within tolerances that are printed. Files of a run contain no secrets: set
them again with key=value. Use the working directory of the run. The command fails if it
finds a fault, and prints what it did not check. It also fails if the record does not
reach the end of the run, unless --unfinished says that the run was stopped or still
trains: a record that was cut off looks the same.`,
		JSON: "write JSON",
		Setup: func(f *flag.FlagSet) cli.Run {
			steps := f.Int("steps", 3, "`number` of steps to replay")
			noReplay := f.Bool("no-replay", false, "compare files only; needs no model")
			seed := f.Uint64("seed", 0,
				"`seed` that draws the steps to replay; by default a random one, which is printed")
			unfinished := f.Bool("unfinished", false,
				"the run was stopped or still trains: do not fail because its end is not recorded")
			return func(ctx context.Context, c *cli.Call) error {
				if *steps < 0 {
					return cli.Usagef("--steps is %d, must not be negative", *steps)
				}
				if *noReplay {
					if err := c.Idle("--no-replay replays no step", "steps", "seed"); err != nil {
						return err
					}
					*steps = 0
				}
				if !c.Given("seed") {
					*seed = uint64(rand.Uint32())
				}
				r, err := replay.Verify(ctx, c.Args[0], replay.VerifyOptions{
					Steps: *steps, Seed: *seed, Overrides: c.Args[1:], Log: c.Log,
				})
				if err != nil {
					return asUsage(err, badRun...)
				}
				rows := [][]string{{"what", "state", "detail"}}
				for _, x := range r.Checks {
					rows = append(rows, []string{x.What, string(x.State), x.Detail})
				}
				err = c.Show(r, rows)
				if n := len(r.Faults()); err == nil && n > 0 {
					err = fmt.Errorf("%w: %s: %d faults", errFaults, c.Args[0], n)
				}
				if err == nil && len(r.Unfinished()) > 0 && !*unfinished {
					err = fmt.Errorf("%w: %s: %s (--unfinished accepts this)",
						errUnfinished, c.Args[0], r.Unfinished()[0].Detail)
				}
				return err
			}
		},
	}
}
