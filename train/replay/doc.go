// Package replay repeats what a run did, from its folder: the configuration, checkpoints and
// recorded episodes. It opens the run's model and uses the steps of train.Trainer.
//
//	Step        repeats a training step and compares it with the record
//	Verify      checks a run against its chain (package train/proof) and repeats some steps
//	OpenCredit  opens a checkpoint with the episodes that its policy played, for package
//	            train/credit
package replay
