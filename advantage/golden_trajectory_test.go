package advantage

import (
	"testing"

	"vagen/internal/golden"
)

// recordEpisodes reads a case whose rows belong to episodes. KL-shaped rewards, if there
// are any, replace scores.
func recordEpisodes(t testing.TB, c golden.Case) *recorded {
	t.Helper()
	rewards := "token_level_scores"
	if _, ok := c.Inputs["token_level_rewards"]; ok {
		rewards = "token_level_rewards"
	}
	r := record(t, c, rewards)
	r.batch.Loss = r.mask(t, "response_mask")
	r.batch.Group = ids(t, c.Inputs, "group_idx")
	r.batch.Trajectory = ids(t, c.Inputs, "episode_id")
	if r.batch.Trajectory == nil {
		r.batch.Trajectory = ids(t, c.Inputs, "traj_idx")
	}
	golden.Decode(t, c.Inputs, "turn_idx", &r.batch.Turn)
	return r
}

// eachEpisodeCase compares all cases of a file with the estimator that make
// returns, whitened and raw.
func eachEpisodeCase(t *testing.T, file string, make func(r *recorded, raw bool) Estimator) {
	t.Helper()
	tally := golden.NewTally(t, file)
	for _, c := range golden.Cases(t, file) {
		r := recordEpisodes(t, c)
		r.compare(t, tally, make(r, false), make(r, true))
	}
}

func TestGoldenTrajectoryOutcome(t *testing.T) {
	eachEpisodeCase(t, "algorithms_next/default_gae.json", func(r *recorded, raw bool) Estimator {
		return TrajectoryOutcome{Gamma: r.param(t, "gamma"), Lambda: r.param(t, "lam"), Whiten: !raw}
	})
}

func TestGoldenTrajectoryToken(t *testing.T) {
	eachEpisodeCase(t, "algorithms_next/token_level_gae.json", func(r *recorded, raw bool) Estimator {
		return TrajectoryToken{Gamma: r.param(t, "gamma"), Lambda: r.param(t, "lam"), Whiten: !raw}
	})
}

func TestGoldenTrajectoryTurn(t *testing.T) {
	eachEpisodeCase(t, "algorithms_next/turn_level_gae.json", func(r *recorded, raw bool) Estimator {
		return TrajectoryTurn{Gamma: r.param(t, "gamma"), Lambda: r.param(t, "lam"), Whiten: !raw}
	})
}

func TestGoldenTrajectoryBiLevel(t *testing.T) {
	eachEpisodeCase(t, "algorithms_next/bi_level_gae.json", func(r *recorded, raw bool) Estimator {
		if gamma := r.param(t, "gamma"); gamma != 1 {
			t.Fatalf("%s: gamma %v, but this estimator is undiscounted", r.Name, gamma)
		}
		return TrajectoryBiLevel{
			TurnGamma: r.param(t, "gamma_turn"), TurnLambda: r.param(t, "lambda_turn"),
			TokenLambda: r.param(t, "lambda_token"), Mix: r.param(t, "bi_level_mix"), Whiten: !raw,
		}
	})
}

func TestGoldenTrajectoryTwoPass(t *testing.T) {
	eachEpisodeCase(t, "algorithms_next/bi_level_gae_published.json", func(r *recorded, raw bool) Estimator {
		var turn *float64
		golden.Decode(t, r.Params, "high_level_gamma", &turn)
		est := TrajectoryTwoPass{Gamma: r.param(t, "gamma"), Lambda: r.param(t, "lam"), TurnGamma: r.param(t, "gamma"), Whiten: !raw}
		if turn != nil {
			est.TurnGamma = *turn
		}
		return est
	})
}

func TestGoldenTrajectoryGRPO(t *testing.T) {
	eachEpisodeCase(t, "algorithms_next/trajectory_grpo.json", func(r *recorded, _ bool) Estimator {
		return TrajectoryGRPO{NormByStd: r.flag(t, "norm_adv_by_std_in_grpo", true)}
	})
}
