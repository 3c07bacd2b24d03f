// Package rollout plays episodes: it puts an agent's policy into environments
// and records everything that training needs.
//
// A Player takes a list of episodes and plays them all at once over one batched
// policy. The live episodes advance in lockstep, in the order of the list: the
// policy answers all of them in one batch, then their environments step side by
// side. With several waves the environments of one wave step while the policy
// answers another. What is recorded depends on the seeds alone, not on the
// number of workers or on how long an environment takes.
//
// An episode that cannot be used costs itself and nothing else: its environment
// failed or hung, its conversation outgrew the model, the model wrote something
// that cannot be read back. Trajectory.End says which; Count sums up.
//
// A Harness lays episodes out as conversations, each of which is a training row:
// one for all turns (Concat), one a turn (NoConcat), the last turns (Window), or
// one until it is full and then another that opens with a summary (Compact). A
// Budget bounds what conversations hold. Rows keep their order, so that estimators
// over episodes can put them together again; Check tells which estimators do.
//
// Tokens are recorded once, as they are read and written. Nothing is tokenised
// again to find out what the model wrote.
//
// Package filter drops groups without signal, package diagnose measures batches,
// package store keeps trajectories in files.
package rollout
