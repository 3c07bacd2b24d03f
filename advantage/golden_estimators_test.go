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
		return GRPO{Epsilon: r.param("epsilon"), NormByStd: r.flag("norm_adv_by_std_in_grpo", true)}
	}
	for file, make := range map[string]func(r *recorded, whiten bool) Estimator{
		"algorithms/gae.json": func(r *recorded, whiten bool) Estimator {
			r.batch.Loss, r.batch.Attention = nil, r.mask("eos_mask")
			return GAE{Gamma: r.param("gamma"), Lambda: r.param("lam"), Whiten: whiten}
		},
		"algorithms/masked_gae.json": func(r *recorded, whiten bool) Estimator {
			r.batch.Loss, r.batch.GAE = nil, r.mask("loss_mask")
			return Masked{Gamma: r.param("gamma"), Lambda: r.param("lam"), Whiten: whiten}
		},
		"algorithms/lite_gae.json": func(r *recorded, whiten bool) Estimator {
			return Lite{Gamma: r.param("gamma"), Lambda: r.param("lam"), Whiten: whiten}
		},
		"algorithms/bi_level_gae.json": func(r *recorded, whiten bool) Estimator {
			r.batch.TurnEnd = r.mask("reward_mask")
			return BiLevel{Gamma: r.param("gamma"), Lambda: r.param("lam"),
				TurnGamma: r.param("high_level_gamma"), Whiten: whiten}
		},
		"algorithms/turn_wise_gae.json": func(r *recorded, whiten bool) Estimator {
			r.batch.TurnEnd = r.mask("reward_mask")
			return TurnWise{TurnGamma: r.param("high_level_gamma"), Lambda: r.param("lam"), Whiten: whiten}
		},
		"algorithms/grpo.json": grpo, "algorithms/lite_grpo.json": grpo,
		"algorithms/rloo.json": func(*recorded, bool) Estimator { return RLOO{} },
		"algorithms/reinforce_plus_plus.json": func(r *recorded, whiten bool) Estimator {
			return ReinforcePlusPlus{Gamma: r.param("gamma"), Whiten: whiten}
		},
		"algorithms/remax.json": func(r *recorded, _ bool) Estimator {
			golden.Need(t, r.Inputs, "reward_baselines", &r.batch.Baselines)
			return ReMax{}
		},
		"algorithms/no_concat_gae.json": func(r *recorded, whiten bool) Estimator {
			var variant string
			golden.Need(t, r.Params, "variant", &variant)
			require.EqualValues(t, IgnoreReturn, r.param("ignore_value"), "%s: ignore_value", r.Name)
			last := variant == "no_concat_gae_last"
			require.True(t, last || variant == "no_concat_gae", "%s: variant %q", r.Name, variant)
			return NoConcat{Gamma: r.param("gamma"), Lambda: r.param("lam"), Last: last, Whiten: whiten}
		},
		"algorithms_next/default_gae.json": func(r *recorded, whiten bool) Estimator {
			return TrajectoryOutcome{Gamma: r.param("gamma"), Lambda: r.param("lam"), Whiten: whiten}
		},
		"algorithms_next/token_level_gae.json": func(r *recorded, whiten bool) Estimator {
			return TrajectoryToken{Gamma: r.param("gamma"), Lambda: r.param("lam"), Whiten: whiten}
		},
		"algorithms_next/turn_level_gae.json": func(r *recorded, whiten bool) Estimator {
			return TrajectoryTurn{Gamma: r.param("gamma"), Lambda: r.param("lam"), Whiten: whiten}
		},
		"algorithms_next/bi_level_gae.json": func(r *recorded, whiten bool) Estimator {
			require.EqualValues(t, 1, r.param("gamma"), "%s: this estimator is undiscounted", r.Name)
			return TrajectoryBiLevel{
				TurnGamma: r.param("gamma_turn"), TurnLambda: r.param("lambda_turn"),
				TokenLambda: r.param("lambda_token"), Mix: r.param("bi_level_mix"), Whiten: whiten,
			}
		},
		"algorithms_next/bi_level_gae_published.json": func(r *recorded, whiten bool) Estimator {
			est := TrajectoryTwoPass{Gamma: r.param("gamma"), Lambda: r.param("lam"),
				TurnGamma: r.param("gamma"), Whiten: whiten}
			turn := &est.TurnGamma
			golden.Decode(t, r.Params, "high_level_gamma", &turn) // null leaves it
			return est
		},
		"algorithms_next/trajectory_grpo.json": func(r *recorded, _ bool) Estimator {
			return TrajectoryGRPO{NormByStd: r.flag("norm_adv_by_std_in_grpo", true)}
		},
	} {
		tally := golden.NewTally(t, file)
		for _, c := range golden.Cases(t, file) {
			r := record(t, c)
			r.compare(tally, make(r, true), make(r, false))
		}
	}
}
