// Package rollout plays episodes: it runs a policy in environments and records
// everything that training needs.
//
// A Player plays a list of episodes concurrently with one batched policy. The
// running episodes advance in lockstep, in the order of the list: the policy answers
// all of them in one batch, then their environments step in parallel. With several
// waves the environments of one wave step while the policy answers another. What is
// recorded depends on the seeds alone, not on the number of workers or on how long
// an environment takes.
//
// An unusable episode does not affect the others. Its environment failed or hung,
// its conversation exceeded the model's context, or the model wrote something that
// cannot be encoded again. Trajectory.End holds the reason; Count adds up a batch.
//
// A Harness splits an episode into conversations, each of which is a training row:
// one for all turns (Concat), one for each turn (NoConcat), one for each window of
// turns (Window), or one until it is full and then another that opens with a summary
// (Compact). A Budget limits the length of conversations. Rows keep their order, so
// that estimators over episodes can join them again; Check reports whether an
// estimator does so.
//
// Tokens are recorded once, as they are read and written. Nothing is tokenised
// again to find out what the model wrote.
//
// Player.Continue continues recorded episodes from any of their turns, with the recorded
// tokens: with another response, or with a new draw. The environment is set to the turn by
// a snapshot, or by a replay that must show what was recorded.
//
// Package filter drops groups without signal, package diagnose measures batches,
// package store keeps trajectories in files.
package rollout
