package engines

// Learner is what Wrap returns.
type Learner = learner
