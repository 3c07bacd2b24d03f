package advantage

// specs lists the estimators of this package.
var specs = []Spec{
	{
		Name: "gae", Mask: MaskAttention, Critic: true, RowLocal: true, Whitens: true,
		New: func(p Params) Estimator { return GAE{Gamma: p.Gamma, Lambda: p.Lambda, Raw: p.Raw} },
	},
	{
		Name: "masked_gae", Mask: MaskGAE, Critic: true, RowLocal: true, Whitens: true,
		New: func(p Params) Estimator { return Masked{Gamma: p.Gamma, Lambda: p.Lambda, Raw: p.Raw} },
	},
	{
		Name: "bi_level_gae", Mask: MaskLoss, Critic: true, TurnEnds: true, RowLocal: true, Whitens: true,
		New: func(p Params) Estimator {
			return BiLevel{Gamma: p.Gamma, Lambda: p.Lambda, TurnGamma: p.TurnGamma, Raw: p.Raw}
		},
	},
	{
		Name: "turn_wise_gae", Mask: MaskLoss, Critic: true, TurnEnds: true, RowLocal: true, Whitens: true,
		New: func(p Params) Estimator {
			return TurnWise{TurnGamma: p.TurnGamma, Lambda: p.Lambda, Raw: p.Raw}
		},
	},
	{
		Name: "grpo", Mask: MaskLoss, Groups: true, RowLocal: true,
		New: func(p Params) Estimator { return GRPO{NoStd: p.NoStd, Epsilon: p.Epsilon} },
	},
	{
		Name: "masked_grpo", Mask: MaskLoss, Groups: true, RowLocal: true, NeedLoss: true,
		New: func(p Params) Estimator { return GRPO{NoStd: p.NoStd, Epsilon: p.Epsilon} },
	},
}
