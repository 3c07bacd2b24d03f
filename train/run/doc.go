// Package run goes from a configuration to a running training loop.
//
// Open builds everything that a configuration names: the model, environments and start
// states, a folder with a lock, checkpoints, resuming, uploads, and the sinks of
// trainer.logger. Train trains; Close gives everything back. The command vagen, the
// quickstart and a program of one's own use the same function:
//
//	c, err := config.Load("run.yaml", "trainer.total_training_steps=100")
//	…
//	r, err := run.Open(ctx, c, run.Options{Console: os.Stdout})
//	…
//	defer r.Close()
//	err = r.Train(ctx)
//
// Options replace parts: a learner or environments of one's own, further sinks, and
// estimators, filters, harnesses and metrics by name.
//
// The package also evaluates (EvalConfig), plays a recorded step again (Replay), and
// reads and writes a run's folder (Folder, Checkpoints).
package run
