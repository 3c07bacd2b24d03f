// Package diagnose computes metrics of a rollout that show whether training is healthy:
// is there a learning signal, and do responses still depend on their input. Entropy, clipped tokens and the KL of
// an update are measured by the learner itself: see policy.Stats.
//
//	metric              reads                              shows
//	data                Score, Shaped, token columns       mean, max, min of what training saw
//	reward_variance     Group, Score                       is there a signal inside groups; falls before collapse
//	explained_variance  Value, Target                      how well the critic predicts returns; 1 is perfectly
//	advantage_share     Parts, Advantage, Group            which reward part drives the updates
//	response_length     Mask, Truncated                    how long responses are, how many were truncated
//	template_collapse   Text, Group                        do responses depend on the start state
//
// A metric whose columns are absent writes nothing, so one set of names works for every
// estimator. A [Registry] holds metrics by name, including users' own. Every sum is
// computed in a fixed order: equal batches give equal bits.
//
// The typical order of a collapse: reward variance falls first, then entropy or the
// dependence on the start state. Entropy alone misses template collapse, where responses
// still differ from each other but no longer depend on the input
// (RAGEN, arXiv:2504.20073; RAGEN-2, arXiv:2604.06268).
package diagnose
