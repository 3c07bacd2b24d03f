// Estimators compares a dozen advantage estimators on one world with a policy that is a table, so that a run takes
// seconds: FrozenLake as text, on a few maps. It trains with every estimator and several seeds, and measures for each
// seed what the turns of 128 episodes of one half-trained policy were worth (package train/credit), to compare it with
// what each estimator says about the same turns: success stands beside how well an estimator assigns credit.
//
// The results are written to a page. A stopped study resumes with the first missing run.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"

	"vagen/studies/program"
)

// options are the flags.
type options struct {
	seeds, steps int
	measured     int // episodes for each seed
	out, report  string
}

func main() {
	o, err := parse(os.Args[1:], os.Stderr)
	program.Main("estimators", err, func(ctx context.Context) error { return compare(ctx, o, os.Stdout) })
}

// parse reads the flags. Errors are written to w, with the usage.
func parse(args []string, w io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("estimators", flag.ContinueOnError)
	f.SetOutput(w)
	f.IntVar(&o.seeds, "seeds", 10, "runs of each estimator, at least 2")
	f.IntVar(&o.steps, "steps", 60, "training steps, an even number from 2")
	f.IntVar(&o.measured, "measured", 128, "episodes of each seed whose turns are measured, 1 to 128")
	f.StringVar(&o.out, "out", "runs/estimators", "folder for results; existing ones are used")
	f.StringVar(&o.report, "report", "docs/estimators-compared.md", "file to write")
	err := f.Parse(args)
	switch {
	case err != nil:
		return o, err
	case f.NArg() > 0:
		err = fmt.Errorf("unexpected arguments %q: only flags are allowed", f.Args())
	case o.seeds < 2:
		err = fmt.Errorf("-seeds is %d, must be 2 or more", o.seeds)
	case o.measured < 1 || o.measured > 128:
		err = fmt.Errorf("-measured is %d, must be in [1, 128]", o.measured)
	case o.steps < 2 || o.steps%2 != 0:
		err = fmt.Errorf("-steps is %d, must be an even number from 2", o.steps)
	}
	if err != nil {
		fmt.Fprintf(w, "estimators: %v\n", err)
	}
	return o, err
}

// compare runs the study and writes its page.
func compare(ctx context.Context, o options, say io.Writer) error {
	s, err := newStudy(o, say)
	if err != nil {
		return err
	}
	r, err := s.run(ctx)
	if err != nil {
		return err
	}
	if err := os.WriteFile(o.report, page(o, r), 0o644); err != nil {
		return err
	}
	_, err = fmt.Fprintf(say, "written to %s\n", o.report)
	return err
}
