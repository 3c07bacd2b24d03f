package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"

	"vagen"
	"vagen/env/builtin"
	"vagen/internal/cli"
	"vagen/internal/launch"
	"vagen/policy/vlm"
)

func trainCommand() *cli.Command {
	return &cli.Command{
		Name: "train", Args: "CONFIG [key=value …]", Min: 1, Max: -1,
		About: "Train a model on an environment.",
		Help: `CONFIG is YAML; vagen config show writes one with every key, and vagen config
explain says what they mean. The model is actor_rollout_ref.model.path, a folder in
the Hugging Face layout. Configuration, metrics, curve, sample episodes and
checkpoints go to the folder --out.`,
		Setup: func(f *flag.FlagSet) cli.Run {
			out := f.String("out", "", "`folder` to write to; without it runs/<project_name>/<experiment_name>")
			resume := f.Bool("resume", false, "go on after the newest checkpoint in the folder, with the same configuration")
			dry := f.Bool("dry-run", false, "check configuration, environment and model folder, and train nothing")
			return func(ctx context.Context, c *cli.Call) error {
				config, err := vagen.LoadConfig(c.Args[0], c.Args[1:]...)
				if err != nil {
					return cli.Usagef("%w", err)
				}
				if err := launch.Preflight(ctx, &config, builtin.Registry()); err != nil {
					if errors.Is(err, vagen.ErrConfig) {
						err = cli.Usagef("%w", err)
					}
					return err
				}
				if *out == "" {
					*out = filepath.Join("runs", config.Trainer.Project, config.Trainer.Experiment)
				}
				if *dry {
					_, err := fmt.Fprintf(c.Out, "%s can be trained: %d steps on %s with %s, results in %s\n",
						c.Args[0], config.Trainer.Steps, config.Env.Name, config.Agent.Model.Path, *out)
					return err
				}
				return train(ctx, c, config, *out, *resume)
			}
		},
	}
}

func train(ctx context.Context, c *cli.Call, config vagen.Config, out string, resume bool) (err error) {
	open := vagen.CreateRun
	if resume {
		open = func(path string, c *vagen.Config) (*vagen.RunFolder, error) { return vagen.OpenRun(path, c, false) }
	}
	folder, err := open(out, &config)
	if err != nil {
		return err
	}
	model, err := vlm.Open(ctx, config.Agent.Model.Path, launch.ModelOptions(&config, c.Log))
	if err != nil {
		return err
	}
	defer model.Close()
	o := launch.Options{Curve: vagen.Curve{Title: config.Env.Name + ", " + config.Trainer.Experiment}, Console: c.Out, Log: c.Log}
	if resume {
		o.Restore = model.Restore
	}
	run, err := launch.Open(ctx, folder, config, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	params, _ := model.Parameters()
	fmt.Fprintf(c.Out, "%.2f M parameters on %s, results in %s\n", float64(params)/1e6, model.Backend(), folder.Path)
	if resume {
		fmt.Fprintf(c.Out, "going on after step %d\n", run.Done())
	}
	if err := run.Train(ctx, model, builtin.Registry()); err != nil {
		return err
	}
	first, last := run.Curve.Ends()
	_, err = fmt.Fprintf(c.Out, "success: before %.2f, trained %.2f\n", first, last)
	return err
}
