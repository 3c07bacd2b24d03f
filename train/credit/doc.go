// Package credit compares what advantage estimators claim about the turns of an episode
// with what the turns were worth, measured by playing on from them.
//
// The claim of an estimator for a turn is the mean of its advantages, before whitening,
// over the tokens of the response that the policy's loss counts. It is computed from what
// a run recorded of a training step: episodes, rewards, values and masks. [Step.Estimate]
// does so for every estimator of package advantage, with the run's parameters or others.
// With the run's own estimator and parameters the result equals the run's, bit by bit.
package credit
