package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"strings"

	"vagen/env"
	"vagen/internal/cli"
	"vagen/policy/vlm"
	"vagen/train"
	"vagen/train/config"
	"vagen/train/run"
	"vagen/train/track/curve"
)

func trainCommand() *cli.Command {
	return &cli.Command{
		Name: "train", Args: "[CONFIG] [key=value …]", Max: -1,
		About: "Train a model on an environment.",
		Help: `CONFIG is YAML; vagen config show writes one with every key, and vagen config
explain says what they mean. With --preset NAME, CONFIG and the keys stand on a named
configuration and CONFIG may be left out: vagen train --preset vagen_full env=sokoban
actor_rollout_ref.model.path=DIR. The model is actor_rollout_ref.model.path, a folder in
the Hugging Face layout. Configuration, metrics, curve, sample episodes and
checkpoints go to the folder --out. When it holds a run, that run goes on after its
newest checkpoint, and ends with the bytes of one that was never stopped;
trainer.resume_mode has the alternatives. SIGINT and SIGTERM end the optimiser steps
that were begun and save (trainer.save_on_interrupt); a second signal ends the
program at once.`,
		Setup: func(f *flag.FlagSet) cli.Run {
			out := f.String("out", "", "`folder` to write to; without it trainer.default_local_dir")
			resume := f.Bool("resume", false, "refuse to begin: the folder must hold a run to go on with")
			preset := presetFlag(f)
			dry := f.Bool("dry-run", false, "check configuration, environments, folders and model, show the memory plan, and train nothing")
			return func(ctx context.Context, c *cli.Call) error {
				s := source(*preset, c.Args)
				if len(c.Args) == 0 && *preset == "" {
					return cli.Usagef("a configuration is needed: a file, --preset or key=value")
				}
				cfg, err := s.Load()
				if err != nil {
					return cli.Usagef("%w", err)
				}
				envs, levels, err := run.Prepare(ctx, &cfg, c.Log)
				if err != nil {
					return asUsage(err)
				}
				if *out == "" {
					*out = run.Dir(&cfg)
				}
				j := job{cfg, envs, levels, *out, *resume}
				if *dry {
					return dryRun(ctx, c, j, s.Name())
				}
				if levels.Shared != nil {
					c.Log.Warn("levels of validation are also trained on", "err", levels.Shared)
				}
				return trainModel(ctx, c, j)
			}
		},
	}
}

// job is a training run that can begin.
type job struct {
	config config.Config
	envs   *env.Registry
	levels *train.Levels
	out    string
	resume bool
}

// dryRun checks the folder, opens the model, and prints notes and the memory plan.
func dryRun(ctx context.Context, c *cli.Call, j job, name string) error {
	if err := run.CheckFolder(j.out, &j.config, j.resume); err != nil {
		return asUsage(err)
	}
	printNotes(c.Out, &j.config)
	if j.levels.Shared != nil {
		fmt.Fprintf(c.Out, "levels of validation are also trained on: %v\n", j.levels.Shared)
	}
	model, err := vlm.Open(ctx, j.config.Agent.Model.Path, run.ModelOptions(&j.config, c.Log))
	if err != nil {
		return err
	}
	defer model.Close()
	plan, err := run.Plan(ctx, &j.config, model, j.envs, j.levels)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.Out, "%s can be trained: %d steps on %s with %s, results in %s\nmemory plan: %v\n",
		name, j.config.Trainer.Steps, j.levels, j.config.Agent.Model.Path, j.out, plan)
	return err
}

func trainModel(ctx context.Context, c *cli.Call, j job) (err error) {
	cfg := j.config
	folder, err := run.PrepareFolder(j.out, &cfg, j.resume, c.Log)
	if err != nil {
		return asUsage(err)
	}
	model, err := vlm.Open(ctx, cfg.Agent.Model.Path, run.ModelOptions(&cfg, c.Log))
	if err != nil {
		return err
	}
	defer model.Close()
	session, err := run.Open(ctx, folder, cfg, run.Options{
		Curve:   curve.Curve{Title: j.levels.String() + ", " + cfg.Trainer.Experiment},
		Console: c.Out, Log: c.Log, Restore: model.Restore, Levels: j.levels,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	params, _ := model.Parameters()
	fmt.Fprintf(c.Out, "%.2f M parameters on %s, results in %s\n", float64(params)/1e6, model.Backend(), folder.Path)
	if session.Done() > 0 {
		fmt.Fprintf(c.Out, "going on after step %d\n", session.Done())
	}
	if err := session.Train(ctx, model, j.envs); err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.Out, outcome(session.Curve.Ends()))
	return err
}

// asUsage makes a wrong command line of a wrong configuration.
func asUsage(err error) error {
	if errors.Is(err, config.ErrConfig) {
		return cli.Usagef("%w", err)
	}
	return err
}

// outcome is the share of successes, as far as it was measured.
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
