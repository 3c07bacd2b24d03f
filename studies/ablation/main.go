// Ablation compares the five presets of VAGEN's paper with a small vision-language model that
// a laptop's CPU trains in minutes, on FrozenLake in pictures with unseen maps. With -long it
// compares two of them over twice as many steps, with -slips all of them from a warm start whose
// statements have errors, with -echo two of them from such a start with and without the prediction of observations.
//
// The runs of one seed share their warm start and number of episodes, and differ only in
// what the presets set, and in that vagen_full is paid for true statements about the state. The
// program writes tables with confidence intervals and p-values to docs/ablation.md, and plots
// beside it. A stopped study resumes with the first missing run.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"vagen/env/builtin"
	"vagen/studies/program"
)

// options are the flags.
type options struct {
	seeds   int
	first   uint64
	plan    bool
	long    bool
	slips   bool
	echo    bool
	out     string
	report  string
	backend string
}

func main() {
	o, err := parse(os.Args[1:], os.Stderr)
	program.Main("ablation", err, func(ctx context.Context) error {
		return launchRun(ctx, o, o.setting(), os.Stdout, os.Stderr)
	})
}

// minSeeds is the smallest number of seeds for which a deviation can be estimated.
const minSeeds = 2

// defaultSeeds is the number of seeds without the flag -seeds.
const defaultSeeds = 5

// parse reads the flags. Errors are written to w, with the usage.
func parse(args []string, w io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("ablation", flag.ContinueOnError)
	f.SetOutput(w)
	f.IntVar(&o.seeds, "seeds", defaultSeeds, "runs of each preset, at least 2")
	f.StringVar(&o.out, "out", "",
		"folder for warm starts and results; existing ones are used (default runs/ablation, with -long runs/ablation-long, …)")
	f.StringVar(&o.report, "report", "",
		"file to write; its plots are written beside it (default docs/ablation.md, with -long docs/ablation-long.md, …)")
	f.BoolVar(&o.long, "long", false, "train vagen_base and vagen_full alone, for twice as many steps")
	f.BoolVar(&o.slips, "slips", false,
		"start from a policy whose statements have errors, and whose moves follow its statements")
	f.BoolVar(&o.echo, "echo", false,
		"start as with -slips, on a written lake: vagen_base and vagen_full with and without the prediction of observations")
	f.StringVar(&o.backend, "backend", "auto", "auto, xla, cuda or go")
	f.Uint64Var(&o.first, "first", 0, "the first seed; the others follow")
	f.BoolVar(&o.plan, "plan", false, "write the page without results, and train nothing")
	err := f.Parse(args)
	switch {
	case err != nil:
		return o, err
	case f.NArg() > 0:
		err = fmt.Errorf("unexpected arguments %q: only flags are allowed", f.Args())
	case o.long && o.slips || o.long && o.echo || o.slips && o.echo:
		err = errors.New("-long, -slips and -echo are studies: only one of them is allowed")
	case o.seeds < minSeeds:
		err = fmt.Errorf("-seeds is %d, must be %d or more", o.seeds, minSeeds)
	}
	if err != nil {
		fmt.Fprintf(w, "ablation: %v\n", err)
	}
	name := "ablation"
	switch {
	case o.long:
		name = "ablation-long"
	case o.slips:
		name = "ablation-slips"
	case o.echo:
		name = "ablation-echo"
	}
	o.out, o.report = cmp.Or(o.out, filepath.Join("runs", name)), cmp.Or(o.report, filepath.Join("docs", name+".md"))
	return o, err
}

// setting is that of the flags.
func (o options) setting() setting {
	switch {
	case o.long:
		return longer()
	case o.slips:
		return slipping()
	case o.echo:
		return echo()
	}
	return published()
}

func launchRun(ctx context.Context, o options, set setting, say, complain io.Writer) error {
	if o.plan {
		return report(o, nil, set)
	}
	envs := builtin.Registry()
	if err := envs.Register(worldName, newToldLake); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(complain, &slog.HandlerOptions{Level: slog.LevelWarn}))
	s := &study{setting: set, out: o.out, first: o.first, backend: o.backend, envs: envs, log: log, say: say}
	results, err := s.run(ctx, o.seeds)
	if err = errors.Join(err, s.close()); err != nil {
		return err
	}
	if err := report(o, results, set); err != nil {
		return err
	}
	fmt.Fprintf(say, "written to %s\n", o.report)
	return nil
}
