package advantage

// specs lists the estimators of this package.
var specs = []Spec{
	{
		Name: "gae", Mask: MaskAttention, Rewards: SiteAll, Critic: true, RowLocal: true, Whitens: true,
		New: func(p Params) Estimator { return GAE{Gamma: p.Gamma, Lambda: p.Lambda, Whiten: p.Whiten} },
	},
	{
		Name: "masked_gae", Mask: MaskGAE, Rewards: SiteMask, Critic: true, RowLocal: true, Whitens: true,
		New: func(p Params) Estimator { return Masked{Gamma: p.Gamma, Lambda: p.Lambda, Whiten: p.Whiten} },
	},
	{
		Name: "lite_gae", Mask: MaskLoss, Rewards: SiteMask, Critic: true, RowLocal: true, Whitens: true,
		New: func(p Params) Estimator { return Lite{Gamma: p.Gamma, Lambda: p.Lambda, Whiten: p.Whiten} },
	},
	{
		Name: "bi_level_gae", Mask: MaskLoss, Rewards: SiteMask, Critic: true, TurnEnds: true, RowLocal: true, Whitens: true,
		New: func(p Params) Estimator {
			return BiLevel{Gamma: p.Gamma, Lambda: p.Lambda, TurnGamma: p.TurnGamma, Whiten: p.Whiten}
		},
	},
	{
		Name: "turn_wise_gae", Mask: MaskLoss, Rewards: SiteTurnEnd, Critic: true, TurnEnds: true, RowLocal: true, Whitens: true,
		New: func(p Params) Estimator {
			return TurnWise{TurnGamma: p.TurnGamma, Lambda: p.Lambda, Whiten: p.Whiten}
		},
	},
	{
		Name: "grpo", Mask: MaskLoss, Rewards: SiteAll, Groups: true, RowLocal: true,
		New: func(p Params) Estimator { return GRPO{NormByStd: p.NormByStd, Epsilon: p.Epsilon} },
	},
	{
		Name: "masked_grpo", Mask: MaskLoss, Rewards: SiteAll, Groups: true, RowLocal: true, NeedLoss: true,
		New: func(p Params) Estimator { return GRPO{NormByStd: p.NormByStd, Epsilon: p.Epsilon} },
	},
	{
		Name: "lite_grpo", Mask: MaskLoss, Rewards: SiteAll, Groups: true, RowLocal: true, NeedLoss: true,
		New: func(p Params) Estimator { return GRPO{NormByStd: p.NormByStd, Epsilon: p.Epsilon} },
	},
	{
		Name: "grpo_passk", Mask: MaskLoss, Rewards: SiteAll, Groups: true, RowLocal: true,
		New: func(p Params) Estimator { return PassK{K: p.PassK, NormByStd: p.NormByStd, Epsilon: p.Epsilon} },
	},
	{
		Name: "rloo", Mask: MaskLoss, Rewards: SiteAll, Groups: true, RowLocal: true,
		New: func(Params) Estimator { return RLOO{} },
	},
	{
		Name: "opo", Mask: MaskLoss, Rewards: SiteAll, Groups: true, RowLocal: true,
		New: func(Params) Estimator { return OPO{} },
	},
	{
		Name: "gpg", Mask: MaskLoss, Rewards: SiteAll, Groups: true, RowLocal: true,
		New: func(Params) Estimator { return GPG{} },
	},
	{
		Name: "reinforce_plus_plus", Mask: MaskLoss, Rewards: SiteMask, RowLocal: true, Whitens: true,
		New: func(p Params) Estimator { return ReinforcePlusPlus{Gamma: p.Gamma, Whiten: p.Whiten} },
	},
	{
		Name: "reinforce_plus_plus_baseline", Mask: MaskLoss, Rewards: SiteAll, Groups: true, RowLocal: true, Whitens: true,
		New: func(p Params) Estimator { return ReinforcePlusPlusBaseline{Whiten: p.Whiten} },
	},
	{
		Name: "remax", Mask: MaskLoss, Rewards: SiteMask, Baselines: true, RowLocal: true,
		New: func(Params) Estimator { return ReMax{} },
	},
	{
		Name: "gigpo", Mask: MaskLoss, Rewards: SiteMask, Groups: true, States: true, TurnIDs: true,
		New: func(p Params) Estimator {
			return GiGPO{Gamma: p.Gamma, StepWeight: p.StepWeight, NormByStd: p.NormByStd, Epsilon: p.Epsilon}
		},
	},
	{
		Name: "no_concat_gae", Mask: MaskLoss, Rewards: SiteMask, Critic: true, ValueMask: true, Whitens: true,
		New: func(p Params) Estimator { return NoConcat{Gamma: p.Gamma, Lambda: p.Lambda, Whiten: p.Whiten} },
	},
	{ // what earlier versions of VAGEN call no_concat_gae
		Name: "no_concat_gae_first", Mask: MaskLoss, Rewards: SiteMask, Critic: true, ValueMask: true, Whitens: true,
		New: func(p Params) Estimator { return NoConcat{Gamma: p.Gamma, Lambda: p.Lambda, Whiten: p.Whiten} },
	},
	{
		Name: "no_concat_gae_last", Mask: MaskLoss, Rewards: SiteMask, Critic: true, ValueMask: true, Whitens: true,
		New: func(p Params) Estimator {
			return NoConcat{Gamma: p.Gamma, Lambda: p.Lambda, Last: true, Whiten: p.Whiten}
		},
	},
	{
		Name: "default_gae", Mask: MaskLoss, Rewards: SiteMask, Critic: true, TurnIDs: true, Whitens: true,
		New: func(p Params) Estimator {
			return TrajectoryOutcome{Gamma: p.Gamma, Lambda: p.Lambda, Whiten: p.Whiten}
		},
	},
	{
		Name: "token_level_gae", Mask: MaskLoss, Rewards: SiteMask, Critic: true, TurnIDs: true, Whitens: true,
		New: func(p Params) Estimator { return TrajectoryToken{Gamma: p.Gamma, Lambda: p.Lambda, Whiten: p.Whiten} },
	},
	{
		Name: "turn_level_gae", Mask: MaskLoss, Rewards: SiteMask, Critic: true, TurnIDs: true, ValueMask: true, Whitens: true,
		New: func(p Params) Estimator { return TrajectoryTurn{Gamma: p.Gamma, Lambda: p.Lambda, Whiten: p.Whiten} },
	},
	{
		Name: "trajectory_bi_level_gae", Mask: MaskLoss, Rewards: SiteMask, Critic: true, TurnIDs: true, Undiscounted: true, Whitens: true,
		New: func(p Params) Estimator {
			return TrajectoryBiLevel{
				TurnGamma: p.TurnGamma, TurnLambda: p.TurnLambda,
				TokenLambda: p.TokenLambda, Mix: p.Mix, Whiten: p.Whiten,
			}
		},
	},
	{
		Name: "bi_level_gae_published", Mask: MaskLoss, Rewards: SiteMask, Critic: true, TurnIDs: true, Whitens: true,
		New: func(p Params) Estimator {
			return TrajectoryTwoPass{Gamma: p.Gamma, Lambda: p.Lambda, TurnGamma: p.TurnGamma, Whiten: p.Whiten}
		},
	},
	{
		Name: "trajectory_grpo", Mask: MaskLoss, Rewards: SiteMask, Groups: true,
		New: func(p Params) Estimator { return TrajectoryGRPO{NormByStd: p.NormByStd, Epsilon: p.Epsilon} },
	},
}
