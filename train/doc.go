// Package train trains vision-language agents by reinforcement learning over several
// turns: it plays episodes, estimates advantages and takes optimiser steps.
//
// These names are the ones to begin with:
//
//	Trainer       the training loop: Run, Validate, Evaluate, State, Restore
//	Checkpointer  saves a run; Rollbacker is one that can go back
//	Observer      sees the episodes that were played
//	State         what a checkpoint keeps beside the weights
//	Levels        the start states of a run; OpenLevels reads them
//	Imitate       supervised training on transcripts, as Imitation says
//	Success       what Evaluate measures
//	OuterKeys     the settings that a Trainer leaves to its caller
//	ErrDiverged   why a run stops by itself; ErrCollapsed and ErrNoRows are others
//
// Package train/config has the configuration, package train/track events and sinks, and
// package train/run a whole run made from a configuration: model, environments, sinks,
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
// It refuses settings that only train/run honours, such as trainer.logger, unless
// Trainer.Handled lists them.
//
// # A step
//
// Episodes are collected and laid out as rows of tokens; the learner scores them; rewards
// are shaped and advantages estimated; a filter drops groups; the learner takes optimiser
// steps. With run.async the episodes of the next step are collected during these.
//
// # Determinism
//
// Every random draw is keyed by the run's seed and its purpose, so the same configuration
// gives the same metrics and weights for any number of workers, and after a resume.
// MachineMetric reports the metrics that differ.
package train
