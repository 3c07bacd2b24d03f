package advantage

import "reflect"

// from returns a constructor of estimators like e. Fields that are 0 in e get the hyperparameters with their names.
func from[E Estimator](e E) func(Params) Estimator {
	return func(p Params) Estimator {
		made, given := e, reflect.ValueOf(p)
		fields := reflect.ValueOf(&made).Elem()
		for i := range fields.NumField() {
			x := given.FieldByName(fields.Type().Field(i).Name)
			if x.IsValid() && fields.Field(i).IsZero() {
				fields.Field(i).Set(x)
			}
		}
		return made
	}
}

// specs lists the estimators of this package. Where they say nothing else, the mask is MaskLoss and rewards are under
// it.
var specs = []Spec{
	{
		Name: "gae", About: "GAE with every token as a step; for rows without observations", Mask: MaskAttention,
		Rewards: SiteAll, Critic: true, RowLocal: true,
		New: from(GAE{}),
	},
	{
		Name: "masked_gae", About: "GAE over the tokens that the model wrote", Mask: MaskGAE, Critic: true,
		RowLocal: true,
		New:      from(Masked{}),
	},
	{
		Name: "lite_gae", About: "masked_gae as VAGEN lite computes it", Critic: true, RowLocal: true,
		New: from(Lite{}),
	},
	{
		Name: "bi_level_gae", About: "GAE over turns first, then over the tokens of each turn", Critic: true,
		TurnEnds: true, RowLocal: true,
		New: from(BiLevel{}),
	},
	{
		Name: "turn_wise_gae", About: "GAE over turns: one advantage per turn", Rewards: SiteTurnEnd, Critic: true,
		TurnEnds: true, RowLocal: true,
		New: from(TurnWise{}),
	},
	{
		Name: "grpo", About: "return minus the mean of the group, divided by its standard deviation", Rewards: SiteAll,
		Groups: true, RowLocal: true,
		New: from(GRPO{}),
	},
	{
		Name: "masked_grpo", About: "grpo that needs a loss mask", Rewards: SiteAll, Groups: true, RowLocal: true,
		NeedLoss: true,
		New:      from(GRPO{}),
	},
	{
		Name: "lite_grpo", About: "grpo as VAGEN lite names it; needs a loss mask", Rewards: SiteAll, Groups: true,
		RowLocal: true, NeedLoss: true,
		New: from(GRPO{}),
	},
	{
		Name: "grpo_passk", About: "what a row adds to the best of k rows of its group", Rewards: SiteAll, Groups: true,
		RowLocal: true,
		New:      func(p Params) Estimator { return PassK{K: p.PassK, NormByStd: p.NormByStd, Epsilon: p.Epsilon} },
	},
	{
		Name: "grpo_ragen", About: "grpo over episodes of several rows, as RAGEN computes it", Rewards: SiteAll,
		Groups: true,
		New:    from(EpisodeGRPO{Joined: true}),
	},
	{
		Name: "grpo_prime", About: "grpo without standard deviation after a price for length", Groups: true,
		New: from(LengthGRPO{}),
	},
	{
		Name: "maxrl_skyrl", About: "return minus the mean of the group, divided by the mean", Rewards: SiteAll,
		Groups: true, RowLocal: true,
		New: from(MaxRL{}),
	},
	{
		Name: "max_rl_prime", About: "maxrl_skyrl with 0 for groups whose mean is not positive", Rewards: SiteAll,
		Groups: true, RowLocal: true,
		New: func(p Params) Estimator { return MaxRL{Guarded: true} },
	},
	{
		Name: "gdpo", About: "grpo of each component of the reward, added and whitened", Rewards: SiteAll, Groups: true,
		Components: true, RowLocal: true,
		New: from(GDPO{}),
	},
	{
		Name: "gdpo_trl", About: "gdpo normalised over rows instead of whitened over tokens", Rewards: SiteAll,
		Groups: true, Components: true, RowLocal: true,
		New: func(Params) Estimator { return GDPO{OverRows: true} },
	},
	{
		Name: "rloo", About: "return minus the mean of the others of the group", Rewards: SiteAll, Groups: true,
		RowLocal: true,
		New:      from(RLOO{}),
	},
	{
		Name: "opo", About: "return minus the mean of the group weighted by length", Rewards: SiteAll, Groups: true,
		RowLocal: true,
		New:      from(OPO{}),
	},
	{
		Name: "gpg", About: "return minus the mean of the group, rescaled for groups without a signal",
		Rewards: SiteAll, Groups: true, RowLocal: true,
		New: from(GPG{}),
	},
	{
		Name: "reinforce_plus_plus", About: "discounted sum of the rewards to come, whitened", RowLocal: true,
		New: from(ReinforcePlusPlus{}),
	},
	{
		Name: "reinforce_plus_plus_slime", About: "reinforce_plus_plus with the rewards after observations",
		Rewards: SiteAll, RowLocal: true,
		New: from(ReinforcePlusPlus{Across: true}),
	},
	{
		Name: "reinforce_plus_plus_baseline", About: "return minus the mean of the group, whitened over the batch",
		Rewards: SiteAll, Groups: true, RowLocal: true,
		New: from(ReinforcePlusPlusBaseline{}),
	},
	{
		Name: "remax", About: "rewards to come minus the score of the greedy response", Baselines: true, RowLocal: true,
		New: from(ReMax{}),
	},
	{
		Name: "rae", About: "score minus a baseline that each environment carries from step to step", Running: true,
		New: from(RAE{}),
	},
	{
		Name:  "optimal_token_baseline",
		About: "rewards to come minus the baseline of least variance, by position in the row", Groups: true,
		RowLocal: true, Squares: true,
		New: from(OptimalBaseline{}),
	},
	{
		Name: "tir_optimal_token_baseline", About: "optimal_token_baseline by position among the tokens of the model",
		Groups: true, RowLocal: true, Squares: true,
		New: from(OptimalBaseline{Packed: true}),
	},
	{
		Name: "gigpo", About: "grpo over episodes, and over turns from equal states", Groups: true, States: true,
		TurnIDs: true,
		New:     from(GiGPO{}),
	},
	{
		Name: "graphgpo", About: "turns compared by their distance to success among the group's states",
		Rewards: SiteAll, Groups: true, States: true, Next: true, TurnIDs: true,
		New: from(GraphGPO{}),
	},
	{
		Name: "hgpo", About: "turns compared over equal states, equal pairs of states, and so on", Rewards: SiteAll,
		Groups: true, States: true, TurnIDs: true,
		New: from(HGPO{}),
	},
	{
		Name: "no_concat_gae", About: "GAE with rows as the steps", Critic: true, ValueMask: true,
		New: from(NoConcat{}),
	},
	{ // what earlier versions of VAGEN call no_concat_gae
		Name: "no_concat_gae_first", About: "no_concat_gae as earlier versions of VAGEN have it", Critic: true,
		ValueMask: true,
		New:       from(NoConcat{}),
	},
	{
		Name: "no_concat_gae_last", About: "no_concat_gae with the value of the last token of a row", Critic: true,
		ValueMask: true,
		New:       from(NoConcat{Last: true}),
	},
	{
		Name: "default_gae", About: "GAE over episodes of several rows, with all reward at the end", Critic: true,
		TurnIDs: true,
		New:     from(TrajectoryOutcome{}),
	},
	{
		Name: "token_level_gae", About: "masked_gae over episodes of several rows", Critic: true, TurnIDs: true,
		New: from(TrajectoryToken{}),
	},
	{
		Name: "turn_level_gae", About: "GAE over the turns of episodes of several rows", Critic: true, TurnIDs: true,
		ValueMask: true,
		New:       from(TrajectoryTurn{}),
	},
	{
		Name: "trajectory_bi_level_gae", About: "token_level_gae mixed with a recursion that discounts between turns",
		Critic: true, TurnIDs: true, Undiscounted: true,
		New: from(TrajectoryBiLevel{}),
	},
	{
		Name:  "bi_level_gae_varlam",
		About: "trajectory_bi_level_gae without discount and mixture: one lambda for each level", Critic: true,
		TurnIDs: true, Undiscounted: true,
		New: from(TrajectoryBiLevel{TurnGamma: 1, Mix: 1}),
	},
	{
		Name: "bi_level_gae_published", About: "bi_level_gae over episodes of several rows", Critic: true,
		TurnIDs: true,
		New:     from(TrajectoryTwoPass{}),
	},
	{
		Name: "trajectory_grpo", About: "grpo over episodes of several rows", Groups: true,
		New: from(TrajectoryGRPO{}),
	},
}
