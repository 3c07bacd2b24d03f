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
// These names are the ones to begin with:
//
//	Open         makes a Run of a configuration and Options; Run.Train trains
//	Check        reports what Open would refuse, with a Preview
//	LoadEval     an evaluation of a policy, as EvalConfig says
//	Replay       plays a recorded step again
//	Folder       the folder of a run; OpenFolder and CreateFolder make one
//	Checkpoints  a folder's checkpoints; OpenCheckpoint reads one
//	Preflight    looks for models, environments and pictures that would not work
//	UntilSignal  a context that a signal ends; ExitCode is a command's answer
//	ErrExists    and ErrOtherConfig, ErrBusy, ErrNoCheckpoint, ErrTorn: why a folder is refused
package run
