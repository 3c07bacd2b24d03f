package main

import (
	"context"
	"flag"

	"vagen/internal/cli"
	"vagen/train/config"
)

func sftCommand() *cli.Command {
	return &cli.Command{
		Name: "sft", Args: "[CONFIG] [key=value …]", Max: -1,
		About: "Train a model on conversations, recorded episodes or scripted lessons.",
		Help: `Does the supervised stage of a configuration: the same as vagen train with
trainer.stage=sft. Group sft of the configuration names the examples and the optimiser:

  vagen sft actor_rollout_ref.model.path=DIR sft.train_files=[chats.jsonl]
  vagen sft run.yaml sft.lessons.teacher=shortest_path sft.lessons.noise=0.3

The folder of the run has the same files as that of vagen train, which can start from its
checkpoints. With trainer.stage=sft+rl vagen train does both stages. docs/sft.md has the
formats of files.`,
		Setup: func(f *flag.FlagSet) cli.Run {
			out := f.String("out", "", "`folder` of the run; empty uses trainer.default_local_dir")
			resume := f.Bool("resume", false, "resume an existing run; fail if there is none")
			preset := presetFlag(f)
			dry := f.Bool("dry-run", false, "check configuration, examples, folders and model, without training")
			return func(ctx context.Context, c *cli.Call) error {
				s := source(*preset, c.Args)
				if len(c.Args) == 0 && *preset == "" {
					return cli.Usagef("a configuration is needed: a file, --preset or key=value")
				}
				s.Overrides = append(s.Overrides, "trainer.stage="+config.StageSFT)
				cfg, err := s.Load()
				if err != nil {
					return cli.Usagef("%w", err)
				}
				o := runOptions(c, *out, *resume)
				if *dry {
					return dryRun(ctx, c, cfg, o, s.Name())
				}
				return trainModel(ctx, c, cfg, o)
			}
		},
	}
}
