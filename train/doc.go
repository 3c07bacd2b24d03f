// Package train trains vision-language agents by reinforcement learning over several
// turns: it plays episodes, estimates advantages and does optimiser steps.
//
// The most important names are:
//
//	Trainer       the training loop: Run, or its steps Collect, Score and Step; Validate,
//	              Evaluate, State, Restore
//	Collected     the episodes of a step before its update
//	Checkpointer  saves a run; a Rollbacker can also restore its newest checkpoint
//	Observer      receives the episodes that were played
//	State         the part of a checkpoint beside the weights
//	Levels        the start states of a run; OpenLevels reads them
//	Imitate       supervised training on transcripts, as Imitation says; with trainer.stage sft
//	              a Trainer does the same for the examples of package train/sft
//	Success       the result of Evaluate
//	OuterKeys     the settings that are implemented by a Trainer's caller
//	ErrDiverged   a reason for which a run stops; ErrCollapsed and ErrNoRows are others
//
// Package train/config has the configuration, package train/track events and sinks, and
// package train/run builds a complete run from a configuration: model, environments, sinks,
// checkpoints, resume. Most programs use that one:
//
//	c, err := config.Load("run.yaml", "trainer.total_training_steps=100")
//	…
//	r, err := run.Open(ctx, c, run.Options{Dir: "runs/first"})
//	…
//	defer r.Close()
//	err = r.Train(ctx)
//
// A program with a learner, environments and sinks of its own uses a Trainer:
//
//	t := train.Trainer{Config: c, Learner: learner, Envs: envs, Sinks: sinks}
//	err := t.Run(ctx)
//
// With a loop of its own it does the steps one by one, and decides itself when to validate, save
// or stop:
//
//	for step := 1; step <= 100; step++ {
//		episodes, err := t.Collect(ctx, step)
//		…
//		metrics, err := t.Step(ctx, episodes)
//		…
//	}
//
// A Trainer refuses settings that only train/run honours, such as trainer.logger, unless
// Trainer.Handled lists them.
//
// # A step
//
// Episodes are collected and converted to rows of tokens; the learner scores the tokens;
// rewards are shaped and advantages estimated; a filter removes groups; the learner does
// optimiser steps. With run.async the episodes of the next step are collected meanwhile.
//
// # Determinism
//
// Every random draw is keyed by the run's seed and its purpose, so the same configuration
// gives the same metrics and weights for any number of workers, and after a resume.
// track.MachineMetric reports the metrics that differ.
package train
