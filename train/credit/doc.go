// Package credit measures what the turns of episodes were worth, and compares advantage
// estimators with it.
//
// [Measurement] continues recorded episodes from each of their turns, many times after the
// response that was given and many times after a fresh one. The difference of the mean
// returns is the measured advantage of the response. Package train/replay opens a
// checkpoint of a run for it; [LoadMeasured] reads the results, [Table] compares them with estimators.
//
// The claim of an estimator for a turn is the mean of its advantages, before whitening,
// over the tokens of the response that the policy's loss counts. It is computed from what
// a run recorded of a training step: episodes, rewards, values and masks. [Step.Estimate]
// does so for every estimator of package advantage, with the run's parameters or others.
// With the run's own estimator and parameters the result equals the run's, bit by bit.
//
// Branching off recorded states is known from vine sampling (Schulman et al.,
// arXiv:1502.05477) and rollout trees (arXiv:2604.11037).
package credit
