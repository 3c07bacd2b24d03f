// Package diagnose turns a rollout into numbers that say whether training is
// well: is there a signal, does the policy still move, does it still look at
// its input.
//
//	metric              reads                              says
//	data                Score, Shaped, token columns       mean, max, min of what training saw
//	reward_variance     Group, Score                       is there a signal inside groups; falls before collapse
//	entropy             Entropy                            how much the policy still explores
//	clip_fraction       LogProb, OldLogProb, Advantage     how many tokens the clip holds back
//	approx_kl           LogProb, OldLogProb                how far the policy has moved
//	explained_variance  Value, Target                      what the critic knows about returns; 1 is all
//	advantage_share     Parts, Advantage, Group            which reward part the updates come from
//	response_length     Mask, Truncated                    how long responses are, how many were cut
//	template_collapse   Text, Group                        do responses depend on the start state
//	mutual_information  Cross                              the same, measured by the policy itself
//
// A metric whose columns are absent writes nothing, so one set of names serves
// every estimator. A [Registry] holds them by name and takes users' own.
// Every sum runs in a fixed order: equal batches give equal bits.
//
// Signs that go together: reward variance falls first, then entropy or the
// dependence on the start state. Entropy alone misses template collapse, where
// responses still differ from each other but no longer by what was asked
// (RAGEN, arXiv:2504.20073; RAGEN-2, arXiv:2604.06268).
package diagnose
