package vagen_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen"
	"vagen/policy"
	"vagen/reward"
)

// whole is a configuration whose steps are one optimiser step on all episodes, with
// returns that can be added up by hand: no discount, and values that are 0.
func whole() vagen.Config {
	c := small()
	c.Algorithm.Estimator, c.Algorithm.Gamma, c.Algorithm.Lambda = "masked_gae", 1, 1
	c.Agent.Actor.MiniBatch, c.Trainer.Steps = c.Data.TrainBatch, 1
	return c
}

// paid recomputes the rewards of a row of the guessing game from its tokens.
func paid(b *bandit, tokens []int32) (positions []int, rewards []float64) {
	colour := map[int32]int{}
	for k := range 3 {
		colour[state(policy.Message{Role: policy.User, Text: fmt.Sprintf("<image> colour %d", k)})] = k
	}
	s := int32(0)
	for i, token := range tokens {
		switch {
		case token >= firstState:
			s = token
		case b.isWord(token):
			pay := -0.5
			if int(token) == colour[s] {
				pay = 1
			}
			positions, rewards = append(positions, i+1), append(rewards, pay) // at the end token
		}
	}
	return positions, rewards
}

// TestRewardsSitWhereTheConfigurationSays: at the end of each turn, or all at the
// end of the row. Without discount and values the return of a token is what is
// still to come.
func TestRewardsSitWhereTheConfigurationSays(t *testing.T) {
	for _, perTurn := range []bool{true, false} {
		c := whole()
		c.Rollout.MultiTurnReward = perTurn
		b := guesser()
		run(t, c, b)
		batch := b.updates[0].batch
		require.Equal(t, 8, batch.Len())
		for row := range batch.Len() {
			from, to := batch.Offsets[row], batch.Offsets[row+1]
			ends, rewards := paid(b, batch.Tokens[from:to])
			require.Len(t, rewards, 2)
			first, second := rewards[0]+rewards[1], rewards[1]
			if !perTurn {
				second = first
			}
			require.Equal(t, float32(first), batch.Returns[from+ends[0]], "row %d", row)
			require.Equal(t, float32(first), batch.Returns[from+ends[0]-1], "row %d", row)
			require.Equal(t, float32(second), batch.Returns[from+ends[1]], "row %d", row)
			require.Zero(t, batch.Returns[from], "the model did not write it")
		}
	}
}

// TestMasksChooseTheTokensOfTheLosses compares the weights of a batch with who
// wrote what.
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
		config := whole()
		config.Algorithm.Estimator = c.estimator
		config.Rollout.LossMask, config.Rollout.GAEMask, config.Critic.OnTurnEnds = c.loss, c.gae, c.ends
		b := guesser()
		run(t, config, b)
		batch := b.updates[0].batch
		var sum, values float64
		for row := range batch.Len() {
			for i := batch.Offsets[row]; i < batch.Offsets[row+1]; i++ {
				first, response, end := i == batch.Offsets[row], batch.Tokens[i] <= b.end(), batch.Tokens[i] == b.end()
				require.Equal(t, !first && (response || !c.responses), batch.Weight[i] != 0, "%s: token %d of row %d", name, i, row)
				require.Equal(t, !first && (end || !c.turnsOnly) && (response || !c.responses), batch.ValueWeight[i] != 0, "%s: token %d of row %d", name, i, row)
				sum, values = sum+float64(batch.Weight[i]), values+float64(batch.ValueWeight[i])
			}
		}
		require.InDelta(t, 1, sum, 1e-6, "%s: a mean over tokens; float32 shares of it", name)
		require.InDelta(t, 1, values, 1e-6, name)
	}
}

// TestEachEpochTakesEveryEpisodeOnce: mini-batches part the episodes, in another
// order in every epoch.
func TestEachEpochTakesEveryEpisodeOnce(t *testing.T) {
	c := small()
	c.Agent.Actor.MiniBatch, c.Agent.Actor.Epochs, c.Trainer.Steps, c.Env.Config = 3, 3, 1, map[string]any{"turns": uint64(5)}
	b := guesser()
	run(t, c, b)
	require.Len(t, b.updates, 9)
	key := func(u update) (out []string) {
		for row := range u.batch.Len() {
			out = append(out, fmt.Sprint(u.batch.Tokens[u.batch.Offsets[row]:u.batch.Offsets[row+1]], u.batch.OldLogProbs[u.batch.Offsets[row]:u.batch.Offsets[row+1]]))
		}
		return out
	}
	var epochs [3][]string
	for i, u := range b.updates {
		require.Len(t, key(u), []int{3, 3, 2}[i%3])
		epochs[i/3] = append(epochs[i/3], key(u)...)
	}
	require.ElementsMatch(t, epochs[0], epochs[1])
	require.ElementsMatch(t, epochs[0], epochs[2])
	require.NotEqual(t, epochs[0], epochs[1])
	require.NotEqual(t, epochs[1], epochs[2])
}

// TestKLInTheRewardChargesResponseTokens recomputes the returns of a step with and
// without the charge: what is missing at a token is the charge of it and all
// response tokens after it.
func TestKLInTheRewardChargesResponseTokens(t *testing.T) {
	for _, kind := range []reward.KL{reward.KLDifference, reward.KLAbsolute, reward.KLSquared, reward.KLLowVariance} {
		c := whole()
		free, charged := guesser(), guesser()
		free.drift, charged.drift = 0.7, 0.7
		run(t, c, free)
		c.Algorithm.KLInReward, c.Algorithm.KLPenalty, c.Algorithm.KLCtrl.Coef = true, string(kind), 0.25
		m := run(t, c, charged)[0].Metrics
		require.False(t, free.asked[0].what.Reference)
		require.True(t, charged.asked[0].what.Reference)
		a, z := free.updates[0].batch, charged.updates[0].batch
		var mean float64
		for row := range z.Len() {
			var charge, own float64
			responses := 0
			for i := z.Offsets[row+1] - 1; i > z.Offsets[row]; i-- {
				if z.Tokens[i] > charged.end() {
					continue
				}
				x := kind.Value(float64(z.OldLogProbs[i]), float64(z.Reference[i]))
				charge, own, responses = charge+0.25*x, own+x, responses+1
				require.InDelta(t, float64(a.Returns[i])-charge, z.Returns[i], 1e-5, "%s: row %d, token %d; sums of float32", kind, row, i)
			}
			mean += own / float64(responses) / 8
		}
		require.InDelta(t, mean, m["actor/reward_kl_penalty"], 1e-6, kind)
		require.NotZero(t, mean)
		require.Equal(t, 0.25, m["actor/reward_kl_penalty_coeff"])
	}
}

// TestTheKLCoefficientIsSteered: fixed stays, adaptive follows Ziegler's rule, one
// step behind.
func TestTheKLCoefficientIsSteered(t *testing.T) {
	for _, kind := range []string{"fixed", "adaptive"} {
		c := small()
		c.Trainer.Steps = 4
		c.Algorithm.KLInReward = true
		c.Algorithm.KLCtrl = vagen.KLConfig{Type: kind, Coef: 0.1, Target: 0.01, Horizon: 40}
		b := guesser()
		b.drift = 1
		want := 0.1
		for _, e := range run(t, c, b).steps() {
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
	for name, want := range map[string]string{"kl": "k1", "k1": "k1", "abs": "abs", "mse": "k2", "k2": "k2", "low_var_kl": "k3", "k3": "k3"} {
		c := whole()
		c.Agent.Actor.UseKLLoss, c.Agent.Actor.KLLossType, c.Agent.Actor.KLLoss = true, name, 0.125
		b := guesser()
		m := run(t, c, b)[0].Metrics
		o := b.updates[0].objective
		require.Equal(t, want, o.KL, name)
		require.Equal(t, 0.125, o.KLCoef)
		require.Len(t, b.updates[0].batch.Reference, len(b.updates[0].batch.Tokens))
		require.Contains(t, m, "actor/kl_loss")
	}
	b := guesser()
	m := run(t, whole(), b)[0].Metrics
	require.Empty(t, b.updates[0].objective.KL)
	require.Nil(t, b.updates[0].batch.Reference)
	require.NotContains(t, m, "actor/kl_loss")
}

// TestTheObjectiveFollowsTheConfiguration reads what the learner was told.
func TestTheObjectiveFollowsTheConfiguration(t *testing.T) {
	c := whole()
	a := &c.Agent.Actor
	a.Clip, a.ClipDual, a.Entropy, a.GradClip, a.NormLimit = 0.15, 3, 0.01, 0.5, 20
	a.Optim = vagen.OptimConfig{Rate: 0.25, Style: "constant", Beta1: 0.8, Beta2: 0.95, Decay: 0.02}
	c.Critic.ValueClip, c.Critic.ValueCoef = 0.3, 0.7
	c.Critic.Optim = a.Optim
	c.Critic.Optim.Rate = 0.125
	c.Agent.Rollout.Temperature = 0.9
	b := guesser()
	run(t, c, b)
	o := b.updates[0].objective
	require.Equal(t, []float64{0.9, 0.15, 0.15, 3, 0.01, 0.7, 0.3}, []float64{o.Temperature, o.ClipLow, o.ClipHigh, o.ClipDual, o.EntropyCoef, o.ValueCoef, o.ValueClip})
	require.False(t, o.CriticOnly || o.Imitate)
	require.Equal(t, policy.Optimizer{Rate: 0.25, CriticRate: 0.125, Beta1: 0.8, Beta2: 0.95, Epsilon: 1e-8, WeightDecay: 0.02, GradClip: 0.5, MaxGradNorm: 20}, b.updates[0].optimizer)
	require.Equal(t, 0.9, b.asked[0].temp)

	low, high := 0.1, 0.28
	a.ClipLow, a.ClipHigh = &low, &high
	b = guesser()
	run(t, c, b)
	o = b.updates[0].objective
	require.Equal(t, []float64{0.1, 0.28}, []float64{o.ClipLow, o.ClipHigh})
}

// TestWithoutCriticNobodyAsksForValues: whether there is none, or none is needed.
func TestWithoutCriticNobodyAsksForValues(t *testing.T) {
	c := whole()
	c.Algorithm.Estimator, c.Rollout.Trajectories, c.Critic.Kind = "grpo", 2, "none"
	b := guesser()
	m := run(t, c, b)[0].Metrics
	require.Equal(t, policy.ScoreRequest{LogProbs: true}, b.asked[0].what)
	require.Zero(t, b.updates[0].objective.ValueCoef)
	require.NotContains(t, m, "critic/vf_loss")
	require.NotContains(t, m, "explained_variance")
	c.Critic.Kind = "separate"
	b = guesser()
	run(t, c, b)
	require.Zero(t, b.updates[0].objective.ValueCoef, "grpo trains no critic")
}

// TestTheCriticWarmsUpAlone: the policy stays where it was for so many steps.
func TestTheCriticWarmsUpAlone(t *testing.T) {
	c := small()
	c.Trainer.CriticWarmup, c.Trainer.Steps, c.Agent.Actor.MiniBatch = 2, 4, 8
	b := guesser()
	var moved []bool
	b.alter = func(*policy.Batch, *policy.Stats) error { moved = append(moved, len(b.prefs) > 0); return nil }
	run(t, c, b)
	var alone []bool
	for _, u := range b.updates {
		alone = append(alone, u.objective.CriticOnly)
	}
	require.Equal(t, []bool{true, true, false, false}, alone)
	require.Equal(t, []bool{false, false, false, true}, moved)
	require.NotEmpty(t, b.values)
}

// TestLearningRates lists the rate of every step of ten.
func TestLearningRates(t *testing.T) {
	for name, c := range map[string]struct {
		optim vagen.OptimConfig
		want  []float64
	}{
		"constant":            {vagen.OptimConfig{Style: "constant"}, []float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
		"constant after 3":    {vagen.OptimConfig{Style: "constant", WarmupRatio: 0.25}, []float64{1. / 3, 2. / 3, 1, 1, 1, 1, 1, 1, 1, 1}},
		"linear":              {vagen.OptimConfig{Style: "linear"}, []float64{9. / 9, 8. / 9, 7. / 9, 6. / 9, 5. / 9, 4. / 9, 3. / 9, 2. / 9, 1. / 9, 0}},
		"linear to a fifth":   {vagen.OptimConfig{Style: "linear", MinRatio: 0.2, WarmupRatio: 0.5}, []float64{0.2, 0.4, 0.6, 0.8, 1, 1, 0.8, 0.6, 0.4, 0.2}},
		"cosine":              {vagen.OptimConfig{Style: "cosine", WarmupRatio: 0.5}, []float64{0.2, 0.4, 0.6, 0.8, 1, 1, (1 + math.Sqrt2/2) / 2, 0.5, (1 - math.Sqrt2/2) / 2, 0}},
		"nothing but warm-up": {vagen.OptimConfig{Style: "cosine", WarmupRatio: 1}, []float64{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1}},
		"one step to fall in": {vagen.OptimConfig{Style: "linear", WarmupRatio: 0.9, MinRatio: 0.5}, []float64{1. / 9, 2. / 9, 3. / 9, 4. / 9, 5. / 9, 6. / 9, 7. / 9, 8. / 9, 1, 1}},
	} {
		config := whole()
		config.Trainer.Steps = 10
		c.optim.Rate, c.optim.Beta1, c.optim.Beta2 = 0.5, 0.9, 0.999
		config.Agent.Actor.Optim, config.Critic.Optim = c.optim, c.optim
		config.Critic.Optim.Rate = 0.25
		b := guesser()
		j := run(t, config, b)
		for i, u := range b.updates {
			require.InDelta(t, 0.5*c.want[i], u.optimizer.Rate, 1e-12, "%s: step %d", name, i+1)
			require.InDelta(t, 0.25*c.want[i], u.optimizer.CriticRate, 1e-12, "%s: step %d", name, i+1)
			require.Equal(t, u.optimizer.Rate, j[i].Metrics["actor/lr"])
		}
	}
}

// TestTheLearnersFiguresAreAveraged over a step's optimiser steps.
func TestTheLearnersFiguresAreAveraged(t *testing.T) {
	c := small() // two optimiser steps a step
	c.Trainer.Steps = 1
	c.Agent.Actor.ClipDual = 3
	b := guesser()
	b.alter = func(_ *policy.Batch, s *policy.Stats) error {
		n := float64(len(b.updates))
		*s = policy.Stats{
			PolicyLoss: n, ValueLoss: 2 * n, Entropy: 3 * n, ApproxKL: 5 * n, ClipFrac: 6 * n, ClipFracLow: 7 * n,
			ValueClip: 8 * n, RatioMax: 9 * n, GradNorm: 10 * n, CriticNorm: 11 * n, Tokens: 12, Skipped: true,
		}
		return nil
	}
	m := run(t, c, b)[0].Metrics
	for name, want := range map[string]float64{
		"actor/pg_loss": 1.5, "critic/vf_loss": 3, "actor/entropy": 4.5, "actor/ppo_kl": 7.5, "actor/pg_clipfrac": 9,
		"actor/pg_clipfrac_lower": 10.5, "critic/vf_clipfrac": 12, "actor/ratio_max": 18, "actor/grad_norm": 15, "critic/grad_norm": 16.5,
		"train/trained_tokens": 24,
	} {
		require.InDelta(t, want, m[name], 1e-12, name)
	}
}

// short gives fewer numbers than there are tokens.
type short struct{ *bandit }

func (s short) Score(ctx context.Context, rows *policy.Rows, want []bool, what policy.ScoreRequest, temperature float64) (*policy.Scores, error) {
	out, err := s.bandit.Score(ctx, rows, want, what, temperature)
	out.LogProbs = out.LogProbs[1:]
	return out, err
}

// TestALearnerThatLosesNumbersIsFound instead of being believed.
func TestALearnerThatLosesNumbersIsFound(t *testing.T) {
	tr, _ := trainer(t, small(), guesser(), &arena{})
	tr.Learner = short{guesser()}
	require.EqualError(t, tr.Run(t.Context()), "vagen: the learner gave 79 log-probs for 80 tokens")
}
