// Package advantage turns the rewards of multi-turn episodes, and a critic's
// values, into advantages and returns for policy-gradient training.
//
// A row of a vision-language agent is not a plain sequence of actions. Most of
// its tokens are observations that the environment wrote: taken for actions,
// they spoil the recursion. Rewards arrive per turn, while the policy acts per
// token, so credit has two clocks. An episode may be laid out in one row or in
// many, and its rewards may come at the end only. The estimators here are the
// ways that the field has found to deal with that; they differ in what a step
// is, what they compare with, and which tokens they look at.
//
// A [Batch] holds rows back to back without padding, in float32. Recursions and
// sums are in float64 and in one fixed order, so results do not depend on how
// many processors work on them, to the last bit, nor on their kind: the vector
// kernels for amd64 round as the Go code does, and the build tag purego leaves
// them out. A [Result] is reused from step to step without allocation. Bad input
// is an error that names field, row and position; no result is ever NaN or
// infinite.
//
// # Use
//
//	var b advantage.Batch // reset and filled anew in every step
//	for _, row := range rows {
//		err = b.Append(row.sequence, mask.DefaultOptions(), advantage.Row{
//			Rewards: row.rewards, Values: row.values, Group: row.start, Trajectory: row.episode,
//		})
//	}
//	est := advantage.BiLevel{Gamma: 1, Lambda: 1, TurnGamma: 0.95}
//	err = est.Estimate(&out, &b) // out is an advantage.Result, kept between steps
//
// Rewards go where the estimator looks for them (Rewards in its [Spec]): the
// reward of a turn on the turn's last token, that of an episode on the last one
// of all. Values are what the critic says before it sees the token.
//
// The policy learns from out.Advantages under b.Loss, tokens aside that were
// forced on it; what stands elsewhere means nothing. The critic learns out.Returns under out.ValueMask where there
// is one, else under b.Loss, and for turn_wise_gae under b.TurnEnd.
//
// # Which one
//
// With a critic, one row per episode:
//
//	gae            GAE          every token is a step; for rows without observations
//	masked_gae     Masked       model tokens are the steps; the base case for agents
//	bi_level_gae   BiLevel      turns first, then tokens within; rewards per turn
//	turn_wise_gae  TurnWise     one advantage per turn; critic on turn ends
//	lite_gae       Lite         masked_gae in a form that passes through observations
//
// With a critic, any number of rows per episode:
//
//	default_gae              TrajectoryOutcome   all reward at the end of the episode
//	token_level_gae          TrajectoryToken     masked_gae across rows
//	turn_level_gae           TrajectoryTurn      turns are the steps; critic on first tokens
//	trajectory_bi_level_gae  TrajectoryBiLevel   slow clock in turns, fast between them, mixed
//	bi_level_gae_published   TrajectoryTwoPass   bi_level_gae across rows
//	no_concat_gae[_last]     NoConcat            rows are the steps
//
// Without a critic, compared within a group of episodes from one start state:
//
//	grpo, masked_grpo, lite_grpo   GRPO      (s − mean) / std, or without std
//	rloo                           RLOO      s − mean of the others
//	opo                            OPO       s − mean weighted by length
//	gpg                            GPG       centred, rescaled for useless groups
//	grpo_passk                     PassK     what a row adds to the best of k
//	reinforce_plus_plus_baseline   ReinforcePlusPlusBaseline   centred, then whitened
//	trajectory_grpo                TrajectoryGRPO   GRPO over episodes of many rows
//	gigpo                          GiGPO     GRPO over episodes, and over repeated states
//
// Without critic or groups:
//
//	reinforce_plus_plus   ReinforcePlusPlus   discounted rewards to come, whitened
//	remax                 ReMax               minus the greedy response's score
//
// Start with masked_gae, or bi_level_gae once the environment pays per turn.
// Take grpo where a critic is too dear and episodes can be repeated from one
// start. Take the trajectory family where the harness splits episodes.
//
// Estimators are plain values whose fields are used as written: zero is a legal
// discount. [DefaultParams] holds the published numbers, [ByName] makes an
// estimator of a configuration's name, and [Describe] tells what it needs.
// Masks are recorded with package [vagen/mask] and enter through
// [Batch.Append], or are set directly.
package advantage
