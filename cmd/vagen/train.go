package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"syscall"

	"vagen/internal/cli"
	"vagen/internal/regular"
	"vagen/internal/usage"
	"vagen/policy"
	"vagen/train/config"
	"vagen/train/queue/embedded"
	"vagen/train/run"
	"vagen/train/track/curve/plot"
)

func trainCommand() *cli.Command {
	return &cli.Command{
		Name: "train", Args: "[CONFIG] [key=value …]", Max: -1,
		About: "Train a model on an environment.",
		Help: `CONFIG is YAML; vagen config show writes one with every key, and vagen config
explain describes the keys. --preset NAME starts from a preset, which CONFIG and the
keys change; then CONFIG is optional:

  vagen train --preset vagen_full env=sokoban actor_rollout_ref.model.path=DIR

The model is actor_rollout_ref.model.path, a folder in the Hugging Face layout.
Configuration, metrics, curve, sample episodes and checkpoints are written to the folder
--out. If it contains a run, this run is resumed from its newest checkpoint, with the
same final bytes as an uninterrupted run; trainer.resume_mode selects other behaviour.
With model.num_nodes above 1, start the command with mpirun or srun; only rank 0 writes
the folder. On SIGINT, SIGTERM or SIGUSR1 the current optimiser steps are finished and
the run is saved (trainer.save_on_interrupt); a second signal ends the program
immediately.`,
		Setup: training("check configuration, environments, folders and model, and print the memory plan, without training"),
	}
}

// training returns the flags and the work of a command that trains, with overrides of its own.
func training(dryUsage string, own ...string) func(f *flag.FlagSet) cli.Run {
	return func(f *flag.FlagSet) cli.Run {
		out := f.String("out", "", "`folder` of the run; empty uses trainer.default_local_dir")
		resume := f.Bool("resume", false, "resume an existing run; fail if there is none")
		preset := presetFlag(f)
		dry := f.Bool("dry-run", false, dryUsage)
		return func(ctx context.Context, c *cli.Call) error {
			s := source(*preset, c.Args)
			if len(c.Args) == 0 && *preset == "" {
				return cli.Usagef("a configuration is needed: a file, --preset or key=value")
			}
			for _, fixed := range own {
				key, _, _ := strings.Cut(fixed, "=")
				for _, given := range s.Overrides {
					if name, _, _ := strings.Cut(strings.TrimLeft(given, "+"), "="); name == key && given != fixed {
						return cli.Usagef("%s is given, but the command means %s", given, fixed)
					}
				}
			}
			s.Overrides = append(s.Overrides, own...)
			cfg, err := s.Load()
			if err != nil {
				return cli.Usagef("%w", err)
			}
			o := run.Options{
				Dir: *out, MustResume: *resume, Console: c.Out, Log: c.Log, QueueServer: embedded.Start, DrawCurve: plot.PNG,
			}
			if *dry {
				return dryRun(ctx, c, cfg, o, s.Name())
			}
			return trainModel(ctx, c, cfg, o)
		}
	}
}

// dryRun checks a run without training and prints the result.
func dryRun(ctx context.Context, c *cli.Call, cfg config.Config, o run.Options, name string) error {
	p, err := run.Check(ctx, cfg, o)
	if err != nil {
		return asUsage(err)
	}
	printNotes(c.Out, p.Notes)
	if p.Shared != nil {
		fmt.Fprintf(c.Out, "validation levels are also trained on: %v\n", p.Shared)
	}
	if p.Rows > 0 {
		fmt.Fprintf(c.Out, "supervised stage: %d examples\n", p.Rows)
	}
	if p.Memory == nil {
		_, err = fmt.Fprintf(c.Out, "%s can be trained: %d steps with %s, results in %s\n", name, p.Steps, p.Model, p.Dir)
		return err
	}
	_, err = fmt.Fprintf(c.Out, "%s can be trained: %d steps on %s with %s, results in %s\nmemory plan: %v\n",
		name, p.Steps, p.Levels, p.Model, p.Dir, p.Memory)
	return err
}

func trainModel(ctx context.Context, c *cli.Call, cfg config.Config, o run.Options) (err error) {
	rank, err := run.Rank(ctx, &cfg)
	if err != nil {
		return asUsage(err)
	}
	if rank > 0 {
		fmt.Fprintf(c.Out, "rank %d of %d follows rank 0\n", rank, cfg.Model.Nodes)
		return asUsage(run.Follow(ctx, cfg, o))
	}
	r, err := run.Open(ctx, cfg, o)
	if err != nil {
		return asUsage(err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if m, ok := policy.As[interface {
		Parameters() (policyCount, criticCount int)
		Backend() string
	}](r.Learner); ok {
		params, _ := m.Parameters()
		fmt.Fprintf(c.Out, "%.2f M trained parameters on %s, results in %s\n", float64(params)/1e6, m.Backend(),
			r.Folder.Path)
	}
	if r.Done() > 0 {
		fmt.Fprintf(c.Out, "resuming after step %d\n", r.Done())
	}
	defer usage.CollectAt(usage.TrainGC)()
	if err := r.Train(ctx); err != nil {
		return err
	}
	if r.Config.Trainer.Stage == config.StageSFT {
		_, err = fmt.Fprintf(c.Out, "the trained model is in %s\n", r.Folder.Path)
		return err
	}
	_, err = fmt.Fprintln(c.Out, outcome(r.Curve.Ends()))
	return err
}

// asUsage makes an error about a configuration, or one of those given, a usage error.
func asUsage(err error, mistakes ...error) error {
	if slices.ContainsFunc(append(mistakes, config.ErrConfig), func(m error) bool { return errors.Is(err, m) }) {
		return cli.Usagef("%w", err)
	}
	return err
}

// badPath are the errors about files and folders that cannot be read, for asUsage of those that the command line names.
var badPath = []error{fs.ErrNotExist, fs.ErrPermission, regular.ErrNotRegular, syscall.ENOTDIR, syscall.ELOOP,
	syscall.ENAMETOOLONG}

// outcome describes the success rates before and after training. Rates that were not
// measured are NaN and omitted.
func outcome(before, trained float64) string {
	var parts []string
	for _, p := range []struct {
		name  string
		share float64
	}{{"before", before}, {"trained", trained}} {
		if !math.IsNaN(p.share) {
			parts = append(parts, fmt.Sprintf("%s %.2f", p.name, p.share))
		}
	}
	if len(parts) == 0 {
		return "success was not measured: no validation ran"
	}
	return "success: " + strings.Join(parts, ", ")
}
