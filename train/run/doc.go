// Package run builds and executes a training run from a configuration.
//
// Open builds everything that a configuration names: the model, environments and start
// states, a folder with a lock, checkpoints, resuming, uploads, and the sinks of
// trainer.logger. Train trains; Close releases everything. The command vagen, the
// quickstart and other programs use the same function:
//
//	c, err := config.Load("run.yaml", "trainer.total_training_steps=100")
//	…
//	r, err := run.Open(ctx, c, run.Options{Console: os.Stdout})
//	…
//	defer r.Close()
//	err = r.Train(ctx)
//
// Options replace parts: the learner, the environments, additional sinks, and estimators,
// filters, harnesses, losses and metrics by name.
//
// The package also reads and writes a run's folder (Folder, Checkpoints). Package train/replay
// repeats recorded steps, package train/evaluation evaluates.
package run
