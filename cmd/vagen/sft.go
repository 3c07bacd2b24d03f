package main

import (
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
		Setup: training("check configuration, examples, folders and model, without training", "trainer.stage="+
			config.StageSFT),
	}
}
