package train_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/policy/loss"
	"vagen/train"
	"vagen/train/config"
)

// paid computes the rewards of a row of the guessing game from its tokens.
func paid(b *traintest.Bandit, tokens []int32) (positions []int, rewards []float64) {
	colour := map[int32]int{}
	for k := range 3 {
		colour[traintest.State(policy.Message{Role: policy.User, Text: fmt.Sprintf("<image> colour %d", k)})] = k
	}
	s := int32(0)
	for i, token := range tokens {
		switch {
		case token >= traintest.FirstState:
			s = token
		case b.IsWord(token):
			pay := -0.5
			if int(token) == colour[s] {
				pay = 1
			}
			positions, rewards = append(positions, i+1), append(rewards, pay) // at the end token
		}
	}
	return positions, rewards
}

// TestMasksChooseTheTokensOfTheLosses compares the weights of a batch with the origin of its
// tokens.
func TestMasksChooseTheTokensOfTheLosses(t *testing.T) {
	for name, c := range map[string]struct {
		estimator            string
		loss, gae, ends      bool
		responses, turnsOnly bool // what the policy loss and the value loss are confined to
	}{
		"both masks":              {"masked_gae", true, true, false, true, false},
		"loss mask alone":         {"gae", true, false, false, true, false},
		"GAE mask alone":          {"masked_gae", false, true, false, false, false},
		"no mask":                 {"gae", false, false, false, false, false},
		"critic on turn ends":     {"turn_wise_gae", true, true, true, true, true},
		"ends without loss mask":  {"bi_level_gae", true, true, true, true, true},
		"critic follows no ends":  {"bi_level_gae", true, true, false, true, false},
		"turn ends and every row": {"gae", false, false, true, false, true},
	} {
		cfg := traintest.Whole()
		cfg.Algorithm.Estimator = c.estimator
		cfg.Rollout.LossMask, cfg.Rollout.GAEMask, cfg.Critic.OnTurnEnds = c.loss, c.gae, c.ends
		b := traintest.Guesser()
		traintest.Run(t, cfg, b)
		batch := b.Updates[0].Batch
		var sum, values float64
		for row := range batch.Len() {
			for i := batch.Offsets[row]; i < batch.Offsets[row+1]; i++ {
				first, response, end := i == batch.Offsets[row], batch.Tokens[i] <= b.End(), batch.Tokens[i] == b.End()
				require.Equal(t, !first && (response || !c.responses), batch.Weight[i] != 0, "%s: token %d of row %d", name, i, row)
				require.Equal(t, !first && (end || !c.turnsOnly) && (response || !c.responses), batch.ValueWeight[i] != 0,
					"%s: token %d of row %d", name, i, row)
				sum, values = sum+float64(batch.Weight[i]), values+float64(batch.ValueWeight[i])
			}
		}
		require.InDelta(t, 1, sum, 1e-6, "%s: a mean over tokens; float32 shares of it", name)
		require.InDelta(t, 1, values, 1e-6, name)
	}
}

// TestEachEpochUsesEveryEpisodeOnce: mini-batches divide the episodes, in another order in every
// epoch.
func TestEachEpochUsesEveryEpisodeOnce(t *testing.T) {
	c := traintest.Small()
	c.Agent.Actor.MiniBatch, c.Agent.Actor.Epochs, c.Trainer.Steps, c.Env.Config = 3, 3, 1,
		map[string]any{"turns": uint64(5)}
	b := traintest.Guesser()
	traintest.Run(t, c, b)
	require.Len(t, b.Updates, 9)
	key := func(u traintest.Update) (out []string) {
		for row := range u.Batch.Len() {
			out = append(out, fmt.Sprint(u.Batch.Tokens[u.Batch.Offsets[row]:u.Batch.Offsets[row+1]],
				u.Batch.OldLogProbs[u.Batch.Offsets[row]:u.Batch.Offsets[row+1]]))
		}
		return out
	}
	var epochs [3][]string
	for i, u := range b.Updates {
		require.Len(t, key(u), []int{3, 3, 2}[i%3])
		epochs[i/3] = append(epochs[i/3], key(u)...)
	}
	require.ElementsMatch(t, epochs[0], epochs[1])
	require.ElementsMatch(t, epochs[0], epochs[2])
	require.NotEqual(t, epochs[0], epochs[1])
	require.NotEqual(t, epochs[1], epochs[2])
}

// TestKLInTheRewardChargesResponseTokens compares the returns of a step with and without the KL
// penalty: the difference at a token is the penalty of it and all response tokens after it.
func TestKLInTheRewardChargesResponseTokens(t *testing.T) {
	for _, kind := range []loss.KL{loss.K1, loss.AbsKL, loss.K2, loss.K3} {
		c := traintest.Whole()
		free, charged := traintest.Guesser(), traintest.Guesser()
		free.Drift, charged.Drift = 0.7, 0.7
		traintest.Run(t, c, free)
		c.Algorithm.KLInReward, c.Algorithm.KLPenalty, c.Algorithm.KLCtrl.Coef = true, string(kind), 0.25
		m := traintest.Run(t, c, charged)[0].Metrics
		require.False(t, free.Asked[0].What.Reference)
		require.True(t, charged.Asked[0].What.Reference)
		a, z := free.Updates[0].Batch, charged.Updates[0].Batch
		var mean float64
		for row := range z.Len() {
			var charge, own float64
			responses := 0
			for i := z.Offsets[row+1] - 1; i > z.Offsets[row]; i-- {
				if z.Tokens[i] > charged.End() {
					continue
				}
				x, _, err := kind.Of(float64(z.OldLogProbs[i]), float64(z.Reference[i]))
				require.NoError(t, err)
				charge, own, responses = charge+0.25*x, own+x, responses+1
				require.InDelta(t, float64(a.Returns[i])-charge, z.Returns[i], 1e-5, "%s: row %d, token %d; sums of float32", kind,
					row, i)
			}
			mean += own / float64(responses) / 8
		}
		require.InDelta(t, mean, m["actor/reward_kl_penalty"], 1e-6, kind)
		require.NotZero(t, mean)
		require.Equal(t, 0.25, m["actor/reward_kl_penalty_coeff"])
	}
}

// TestTheKLCoefficientIsAdapted: fixed is constant, adaptive follows Ziegler's rule, one step
// later.
func TestTheKLCoefficientIsAdapted(t *testing.T) {
	for _, kind := range []string{"fixed", "adaptive"} {
		c := traintest.Small()
		c.Trainer.Steps = 4
		c.Algorithm.KLInReward = true
		c.Algorithm.KLCtrl = config.KLConfig{Type: kind, Coef: 0.1, Target: 0.01, Horizon: 40}
		b := traintest.Guesser()
		b.Drift = 1
		want := 0.1
		for _, e := range traintest.Run(t, c, b).Steps() {
			require.InDelta(t, want, e.Metrics["actor/reward_kl_penalty_coeff"], 1e-12, "%s step %d", kind, e.Step)
			if kind == "adaptive" {
				off := min(max(e.Metrics["actor/reward_kl_penalty"]/0.01-1, -0.2), 0.2)
				want *= 1 + off*8/40
			}
		}
		require.Equal(t, kind == "fixed", want == 0.1)
	}
}

func TestTheKLLossReachesTheLearner(t *testing.T) {
	for _, name := range []string{"kl", "k1", "abs", "mse", "k2", "low_var_kl", "k3"} {
		c := traintest.Whole()
		c.Agent.Actor.UseKLLoss, c.Agent.Actor.KLLossType, c.Agent.Actor.KLLoss = true, name, 0.125
		b := traintest.Guesser()
		m := traintest.Run(t, c, b)[0].Metrics
		o := b.Updates[0].Objective
		require.Equal(t, loss.KL(name), o.KL)
		require.Equal(t, 0.125, o.KLCoef)
		require.Len(t, b.Updates[0].Batch.Reference, len(b.Updates[0].Batch.Tokens))
		require.Contains(t, m, "actor/kl_loss")
	}
	b := traintest.Guesser()
	m := traintest.Run(t, traintest.Whole(), b)[0].Metrics
	require.Empty(t, b.Updates[0].Objective.KL)
	require.Nil(t, b.Updates[0].Batch.Reference)
	require.NotContains(t, m, "actor/kl_loss")
}

// TestTheObjectiveFollowsTheConfiguration reads the learner's recorded calls.
func TestTheObjectiveFollowsTheConfiguration(t *testing.T) {
	c := traintest.Whole()
	a := &c.Agent.Actor
	a.Clip, a.ClipDual, a.Entropy, a.GradClip, a.NormLimit = 0.15, 3, 0.01, 0.5, 20
	a.Optim = config.OptimConfig{Rate: 0.25, Style: "constant", Beta1: 0.8, Beta2: 0.95, Decay: 0.02}
	c.Critic.ValueClip, c.Critic.ValueCoef = 0.3, 0.7
	c.Critic.Optim = a.Optim
	c.Critic.Optim.Rate = 0.125
	c.Agent.Rollout.Temperature = 0.9
	b := traintest.Guesser()
	traintest.Run(t, c, b)
	o := b.Updates[0].Objective
	require.Equal(t, []float64{0.9, 0.01, 0.7, 0.3}, []float64{o.Temperature, o.EntropyCoef, o.ValueCoef, o.ValueClip})
	require.Equal(t, loss.PPO{Low: 0.15, High: 0.15, Dual: 3, Clamp: true}, o.Policy)
	require.False(t, o.CriticOnly || o.Imitate)
	require.Equal(t, policy.Optimizer{Rate: 0.25, CriticRate: 0.125, Beta1: 0.8, Beta2: 0.95, Epsilon: 1e-8,
		WeightDecay: 0.02, GradClip: 0.5, MaxGradNorm: 20}, b.Updates[0].Optimizer)
	require.Equal(t, 0.9, b.Asked[0].Temp)

	low, high := 0.1, 0.28
	a.ClipLow, a.ClipHigh, a.Loss.Clamp = &low, &high, false
	b = traintest.Guesser()
	traintest.Run(t, c, b)
	o = b.Updates[0].Objective
	require.Equal(t, loss.PPO{Low: 0.1, High: 0.28, Dual: 3}, o.Policy)
}

// TestValuesAreRequestedOnlyWithACritic that the estimator needs.
func TestValuesAreRequestedOnlyWithACritic(t *testing.T) {
	c := traintest.Whole()
	c.Algorithm.Estimator, c.Rollout.Trajectories, c.Critic.Kind = "grpo", 2, "none"
	b := traintest.Guesser()
	m := traintest.Run(t, c, b)[0].Metrics
	require.Equal(t, policy.ScoreRequest{LogProbs: true}, b.Asked[0].What)
	require.Zero(t, b.Updates[0].Objective.ValueCoef)
	require.NotContains(t, m, "critic/vf_loss")
	require.NotContains(t, m, "explained_variance")
	c.Critic.Kind = "separate"
	b = traintest.Guesser()
	traintest.Run(t, c, b)
	require.Zero(t, b.Updates[0].Objective.ValueCoef, "grpo trains no critic")
}

// TestTheCriticWarmsUpAlone: the policy does not change before the step critic_warmup. Steps
// begin with 1, as in the original systems, so that 1 is like 0.
func TestTheCriticWarmsUpAlone(t *testing.T) {
	for warmup, want := range [][]bool{{false, false, false, false}, {false, false, false, false},
		{true, false, false, false}, {true, true, false, false}} {
		c := traintest.Small()
		c.Trainer.CriticWarmup, c.Trainer.Steps, c.Agent.Actor.MiniBatch = warmup, 4, 8
		b := traintest.Guesser()
		var moved []bool
		b.Alter = func(*policy.Batch, *policy.Stats) error { moved = append(moved, len(b.Prefs) > 0); return nil }
		traintest.Run(t, c, b)
		var alone []bool
		for _, u := range b.Updates {
			alone = append(alone, u.Objective.CriticOnly)
		}
		require.Equal(t, want, alone, "critic_warmup %d", warmup)
		require.Equal(t, slices.Concat([]bool{false}, complement(want[:3])), moved,
			"the updates before have trained the policy")
		require.NotEmpty(t, b.Values)
	}
}

// complement inverts each value.
func complement(of []bool) (out []bool) {
	for _, x := range of {
		out = append(out, !x)
	}
	return out
}

// TestLearningRates lists the rate of every step of ten.
func TestLearningRates(t *testing.T) {
	for name, c := range map[string]struct {
		optim config.OptimConfig
		want  []float64
	}{
		"constant": {config.OptimConfig{Style: "constant"}, []float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
		"constant after 2.5, rounded down": {config.OptimConfig{Style: "constant", WarmupRatio: 0.25},
			[]float64{1. / 2, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
		"linear": {config.OptimConfig{Style: "linear"},
			[]float64{9. / 9, 8. / 9, 7. / 9, 6. / 9, 5. / 9, 4. / 9, 3. / 9, 2. / 9, 1. / 9, 0}},
		"linear to a fifth": {config.OptimConfig{Style: "linear", MinRatio: 0.2, WarmupRatio: 0.5},
			[]float64{0.2, 0.4, 0.6, 0.8, 1, 1, 0.8, 0.6, 0.4, 0.2}},
		"cosine": {config.OptimConfig{Style: "cosine", WarmupRatio: 0.5},
			[]float64{0.2, 0.4, 0.6, 0.8, 1, 1, (1 + math.Sqrt2/2) / 2, 0.5, (1 - math.Sqrt2/2) / 2, 0}},
		"nothing but warm-up": {config.OptimConfig{Style: "cosine", WarmupRatio: 1},
			[]float64{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1}},
		"so many steps, whatever the share": {config.OptimConfig{Style: "constant", WarmupSteps: 4, WarmupRatio: 0.1},
			[]float64{0.25, 0.5, 0.75, 1, 1, 1, 1, 1, 1, 1}},
		"the default is the share": {config.OptimConfig{Style: "constant", WarmupSteps: -1, WarmupRatio: 0.2},
			[]float64{0.5, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
		"one step to fall in": {config.OptimConfig{Style: "linear", WarmupRatio: 0.9, MinRatio: 0.5},
			[]float64{1. / 9, 2. / 9, 3. / 9, 4. / 9, 5. / 9, 6. / 9, 7. / 9, 8. / 9, 1, 1}},
	} {
		cfg := traintest.Whole()
		cfg.Trainer.Steps = 10
		c.optim.Rate, c.optim.Beta1, c.optim.Beta2 = 0.5, 0.9, 0.999
		cfg.Agent.Actor.Optim, cfg.Critic.Optim = c.optim, c.optim
		cfg.Critic.Optim.Rate = 0.25
		b := traintest.Guesser()
		j := traintest.Run(t, cfg, b)
		for i, u := range b.Updates {
			require.InDelta(t, 0.5*c.want[i], u.Optimizer.Rate, 1e-12, "%s: step %d", name, i+1)
			require.InDelta(t, 0.25*c.want[i], u.Optimizer.CriticRate, 1e-12, "%s: step %d", name, i+1)
			require.Equal(t, u.Optimizer.Rate, j[i].Metrics["actor/lr"])
		}
	}
}

// TestTheLearnersMetricsAreAveraged over a step's optimiser steps.
func TestTheLearnersMetricsAreAveraged(t *testing.T) {
	c := traintest.Small() // two optimiser steps a step
	c.Trainer.Steps = 1
	c.Agent.Actor.ClipDual = 3
	b := traintest.Guesser()
	b.Alter = func(_ *policy.Batch, s *policy.Stats) error {
		n := float64(len(b.Updates))
		*s = policy.Stats{
			PolicyLoss: n, ValueLoss: 2 * n, Entropy: 3 * n, ApproxKL: 5 * n, ClipFrac: 6 * n, ClipFracLow: 7 * n,
			ValueClip: 8 * n, RatioMax: 9 * (3 - n), GradNorm: 10 * n, CriticNorm: 11 * n, Tokens: 12, Skipped: true,
			HasEntropy: true, HasGradNorm: true, Metrics: map[string]float64{"actor/turn_len_mean": n, "actor/ratio_min": n},
		}
		return nil
	}
	m := traintest.Run(t, c, b)[0].Metrics
	for name, want := range map[string]float64{
		"actor/pg_loss": 1.5, "critic/vf_loss": 3, "actor/entropy": 4.5, "actor/ppo_kl": 7.5, "actor/pg_clipfrac": 9,
		"actor/pg_clipfrac_lower": 10.5, "critic/vf_clipfrac": 12, "actor/ratio_max": 18, "actor/grad_norm": 15,
		"critic/grad_norm":    16.5,
		"actor/turn_len_mean": 1.5, "actor/ratio_min": 1,
		"train/trained_tokens": 24,
	} {
		require.InDelta(t, want, m[name], 1e-12, name)
	}
}

// TestWhatALearnerDoesNotReportIsNoMetric: an entropy that is not known is not 0, and no alarm is on.
func TestWhatALearnerDoesNotReportIsNoMetric(t *testing.T) {
	c := traintest.Small()
	b := traintest.Guesser()
	b.Alter = func(_ *policy.Batch, s *policy.Stats) error {
		*s = policy.Stats{RatioMax: 1, Tokens: 1, Skipped: true}
		return nil
	}
	c.Trainer.Steps, c.Trainer.MaxSkipped, c.Stability.Alarms.Action = 4, 100, config.ActionStop
	for _, e := range traintest.Run(t, c, b).Steps() {
		require.NotContains(t, e.Metrics, "actor/entropy")
		require.NotContains(t, e.Metrics, "actor/grad_norm")
		require.Contains(t, e.Metrics, "actor/pg_loss")
	}
	b.Alter = func(_ *policy.Batch, s *policy.Stats) error { // a policy that has collapsed
		s.Skipped = true
		return nil
	}
	tr, _ := traintest.Trainer(t, c, b, nil)
	require.ErrorIs(t, tr.Run(t.Context()), train.ErrCollapsed)
	var j traintest.Journal
	b.Alter = func(_ *policy.Batch, s *policy.Stats) error { *s = policy.Stats{Skipped: true}; return nil }
	require.NoError(t, train.Imitate(t.Context(), b, 8, transcripts(t, b, 8), lesson(), &j))
	require.NotContains(t, j[0].Metrics, "imitate/grad_norm")
}
