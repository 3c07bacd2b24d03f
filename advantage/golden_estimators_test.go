package advantage

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
)

// TestGoldenEstimators compares estimators with recorded rows, and their advantages before whitening where a file
// has them.
func TestGoldenEstimators(t *testing.T) {
	grpo := func(r *recorded, _ bool) Estimator {
		return GRPO{Epsilon: r.Param("epsilon"), NormByStd: golden.ParamOr(r.Run, "norm_adv_by_std_in_grpo", true)}
	}
	for file, make := range map[string]func(r *recorded, whiten bool) Estimator{
		"algorithms/gae.json": func(r *recorded, whiten bool) Estimator {
			r.batch.Loss, r.batch.Attention = nil, r.mask("eos_mask")
			return GAE{Gamma: r.Param("gamma"), Lambda: r.Param("lam"), Whiten: whiten}
		},
		"algorithms/masked_gae.json": func(r *recorded, whiten bool) Estimator {
			r.batch.Loss, r.batch.GAE = nil, r.mask("loss_mask")
			return Masked{Gamma: r.Param("gamma"), Lambda: r.Param("lam"), Whiten: whiten}
		},
		"algorithms/lite_gae.json": func(r *recorded, whiten bool) Estimator {
			return Lite{Gamma: r.Param("gamma"), Lambda: r.Param("lam"), Whiten: whiten}
		},
		"algorithms/bi_level_gae.json": func(r *recorded, whiten bool) Estimator {
			r.batch.TurnEnd = r.mask("reward_mask")
			return BiLevel{Gamma: r.Param("gamma"), Lambda: r.Param("lam"),
				TurnGamma: r.Param("high_level_gamma"), Whiten: whiten}
		},
		"algorithms/turn_wise_gae.json": func(r *recorded, whiten bool) Estimator {
			r.batch.TurnEnd = r.mask("reward_mask")
			return TurnWise{TurnGamma: r.Param("high_level_gamma"), Lambda: r.Param("lam"), Whiten: whiten}
		},
		"algorithms/grpo.json": grpo, "algorithms/lite_grpo.json": grpo,
		"algorithms/rloo.json": func(*recorded, bool) Estimator { return RLOO{} },
		"algorithms/reinforce_plus_plus.json": func(r *recorded, whiten bool) Estimator {
			return ReinforcePlusPlus{Gamma: r.Param("gamma"), Whiten: whiten}
		},
		"algorithms/remax.json": func(r *recorded, _ bool) Estimator {
			r.batch.Baselines = golden.Input[[]float32](r.Run, "reward_baselines")
			return ReMax{}
		},
		"algorithms/no_concat_gae.json": func(r *recorded, whiten bool) Estimator {
			variant := golden.Param[string](r.Run, "variant")
			require.EqualValues(r, IgnoreReturn, r.Param("ignore_value"))
			last := variant == "no_concat_gae_last"
			require.True(r, last || variant == "no_concat_gae", variant)
			return NoConcat{Gamma: r.Param("gamma"), Lambda: r.Param("lam"), Last: last, Whiten: whiten}
		},
		"algorithms_next/default_gae.json": func(r *recorded, whiten bool) Estimator {
			return TrajectoryOutcome{Gamma: r.Param("gamma"), Lambda: r.Param("lam"), Whiten: whiten}
		},
		"algorithms_next/token_level_gae.json": func(r *recorded, whiten bool) Estimator {
			return TrajectoryToken{Gamma: r.Param("gamma"), Lambda: r.Param("lam"), Whiten: whiten}
		},
		"algorithms_next/turn_level_gae.json": func(r *recorded, whiten bool) Estimator {
			return TrajectoryTurn{Gamma: r.Param("gamma"), Lambda: r.Param("lam"), Whiten: whiten}
		},
		"algorithms_next/bi_level_gae.json": func(r *recorded, whiten bool) Estimator {
			require.EqualValues(r, 1, r.Param("gamma"), "this estimator is undiscounted")
			return TrajectoryBiLevel{
				TurnGamma: r.Param("gamma_turn"), TurnLambda: r.Param("lambda_turn"),
				TokenLambda: r.Param("lambda_token"), Mix: r.Param("bi_level_mix"), Whiten: whiten,
			}
		},
		"algorithms_next/bi_level_gae_published.json": func(r *recorded, whiten bool) Estimator {
			return TrajectoryTwoPass{Gamma: r.Param("gamma"), Lambda: r.Param("lam"),
				TurnGamma: r.Optional("high_level_gamma", r.Param("gamma")), Whiten: whiten}
		},
		"algorithms_next/trajectory_grpo.json": func(r *recorded, _ bool) Estimator {
			return TrajectoryGRPO{NormByStd: golden.ParamOr(r.Run, "norm_adv_by_std_in_grpo", true)}
		},
	} {
		golden.Each(t, file, func(c *golden.Run) {
			r := record(c)
			r.compare(make(r, true), make(r, false))
		})
	}
}
