// Package advantage turns the rewards of multi-turn episodes, and a critic's
// values, into advantages and returns for policy-gradient training.
//
// A row of a vision-language agent is not a plain sequence of actions. Most of its
// tokens are observations written by the environment; treating them as actions
// corrupts the recursion. Rewards arrive per turn, while the policy acts per token,
// so credit has two time scales. An episode may consist of one row or of many, and
// its rewards may come only at the end. The estimators of this package are the known
// methods for these cases; they differ in what a step is, what they compare with, and
// which tokens they use.
//
// A [Batch] holds rows one after another without padding, in float32. Recursions and
// sums are in float64 and in one fixed order, so results do not depend on the processor, to
// the last bit. A [Result] is reused from step to step without allocation.
// Bad input is an error that names field, row and position; no result is ever NaN or infinite.
//
// # Use
//
//	var b advantage.Batch // reset and filled anew in every step
//	for _, row := range rows {
//		err = b.Append(row.sequence, mask.Options{}, advantage.Row{
//			Rewards: row.rewards, Values: row.values, Group: row.start, Trajectory: row.episode,
//		})
//	}
//	est := advantage.BiLevel{Gamma: 1, Lambda: 1, TurnGamma: 0.95, Whiten: true}
//	err = est.Estimate(&out, &b) // out is an advantage.Result, kept between steps
//
// Rewards must be placed where the estimator reads them (Rewards in its [Spec]): the
// reward of a turn on the turn's last token, that of an episode on its last token.
// The value at a token is the critic's estimate before that token.
//
// The policy is trained with out.Advantages under b.Loss; other entries are meaningless.
// The critic is trained with out.Returns under out.ValueMask if there is one, otherwise
// under b.Response, and for turn_wise_gae under b.TurnEnd. out.Unread should be 0.
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
//	trajectory_bi_level_gae  TrajectoryBiLevel   discount between turns, mixed with the plain recursion
//	bi_level_gae_published   TrajectoryTwoPass   bi_level_gae across rows
//	bi_level_gae_varlam      TrajectoryBiLevel   one λ within turns, one between them
//	no_concat_gae[_last]     NoConcat            rows are the steps
//
// Without a critic, compared within a group of episodes from one start state:
//
//	grpo, masked_grpo, lite_grpo   GRPO      (s − mean) / std, or without std
//	rloo                           RLOO      s − mean of the others
//	opo                            OPO       s − mean weighted by length
//	gpg                            GPG       centred, rescaled for groups without signal
//	optimal_token_baseline         OptimalBaseline   the baseline of least variance at each position
//	tir_optimal_token_baseline     OptimalBaseline   the same among the tokens of the model
//	grpo_passk                     PassK     what a row adds to the best of k
//	reinforce_plus_plus_baseline   ReinforcePlusPlusBaseline   centred, then whitened
//	trajectory_grpo                TrajectoryGRPO   GRPO over episodes of many rows
//	gigpo                          GiGPO     GRPO over episodes, and over repeated states
//	hgpo                           HGPO      over repeated states, pairs of states, …
//	graphgpo                       GraphGPO  over repeated states, by their distance to success
//	grpo_ragen                     EpisodeGRPO   GRPO over episodes, each row with the score of its own
//	grpo_prime                     LengthGRPO    s − mean after a price for length
//	gdpo, gdpo_trl                 GDPO      GRPO of each component of the reward
//	maxrl_skyrl, max_rl_prime      MaxRL     (s − mean) / mean
//
// Without critic or groups:
//
//	reinforce_plus_plus   ReinforcePlusPlus   discounted rewards to come, whitened
//	reinforce_plus_plus_slime   ReinforcePlusPlus   the same over observations
//	remax                 ReMax               minus the greedy response's score
//	rae                   RAE                 minus the environment's running mean
//
// Start with masked_gae, or bi_level_gae if the environment gives rewards per turn.
// Use grpo if a critic is too expensive and episodes can be repeated from one start.
// Use the trajectory family if the harness splits episodes.
//
// Estimators are plain values whose fields are used literally: zero is a legal
// discount. [DefaultParams] returns the defaults, [New] creates an
// estimator from its configuration name, and [Describe] lists its inputs. Masks are
// recorded with package [vagen/mask] and added by [Batch.Append], or set directly.
package advantage
