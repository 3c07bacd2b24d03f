package train_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/policy/loss"
	"vagen/train/config"
)

// TestEveryPolicyLossHasAConfiguration: each loss of package loss can be trained with, and gets
// its own settings and the aggregation that it requires.
func TestEveryPolicyLossHasAConfiguration(t *testing.T) {
	for _, name := range loss.Builtin().Names() {
		if p, err := loss.Builtin().New(name, loss.DefaultOptions()); err != nil || loss.Teacher(p) {
			continue // without advantages: see TestATeacherIsLearnedFrom
		}
		c := traintest.Whole()
		a := &c.Agent.Actor
		a.Loss.Mode, a.Entropy = name, 0
		c.Algorithm.Estimator = "token_level_gae" // which tells turns apart
		a.Loss.ClipCov.Ratio, a.Loss.ClipCov.CovLow, a.Loss.ClipCov.CovHigh = 0.1, 0.2, 0.3
		a.Loss.KLCov = loss.KLCov{Ratio: 0.4, Coef: 0.5}
		a.TauPos, a.TauNeg = 0.6, 0.7
		b := traintest.Guesser()
		traintest.Run(t, c, b)
		batch, o := b.Updates[0].Batch, b.Updates[0].Objective
		p := o.Policy
		switch want := p.(type) {
		case loss.ClipCov:
			require.Equal(t, loss.ClipCov{Low: 0.2, High: 0.2, Ratio: 0.1, CovLow: 0.2, CovHigh: 0.3}, want)
		case loss.KLCov:
			require.Equal(t, loss.KLCov{Ratio: 0.4, Coef: 0.5}, want)
		case loss.SAPO:
			require.Equal(t, loss.SAPO{TauPos: 0.6, TauNeg: 0.7}, want)
		}
		mode, err := loss.ModeOf(p)
		require.NoError(t, err)
		mask := make([]bool, len(batch.Tokens))
		for i, w := range batch.Weight {
			mask[i] = w != 0
		}
		weights, err := loss.Aggregation{Mode: mode}.Weights(nil, batch.Offsets, mask)
		require.NoError(t, err)
		for i, w := range weights {
			require.Equal(t, float32(w), batch.Weight[i], "%s: token %d", name, i)
		}
		require.Nil(t, batch.AuxWeight, "%s: nothing else is averaged", name)
		require.Nil(t, batch.RolloutWeight)
		require.Equal(t, loss.Sampled(p), batch.Sampled != nil, name)
		require.NoError(t, loss.CheckTurns(batch.Offsets, mask, batch.Turn))
		turns := map[[2]int]bool{}
		for row := range batch.Len() {
			for i := batch.Offsets[row]; i < batch.Offsets[row+1]; i++ {
				turns[[2]int{row, int(batch.Turn[i])}] = turns[[2]int{row, int(batch.Turn[i])}] || mask[i]
			}
		}
		require.Len(t, turns, 16, "two turns in each of eight episodes")
	}
}

// TestEntropyAndKLKeepTheConfiguredAggregation beside a loss with its own.
func TestEntropyAndKLKeepTheConfiguredAggregation(t *testing.T) {
	for term, set := range map[string]func(*config.ActorConfig){
		"entropy": func(a *config.ActorConfig) { a.Entropy = 0.01 },
		"KL":      func(a *config.ActorConfig) { a.Entropy, a.UseKLLoss = 0, true },
	} {
		c := traintest.Whole()
		c.Algorithm.Estimator = "token_level_gae"
		c.Agent.Actor.Loss.Mode, c.Agent.Actor.Aggregation = "turn_gspo", "seq-mean-token-mean"
		set(&c.Agent.Actor)
		b := traintest.Guesser()
		traintest.Run(t, c, b)
		batch := b.Updates[0].Batch
		var own, aux float64
		for i, w := range batch.Weight {
			own, aux = own+float64(w), aux+float64(batch.AuxWeight[i])
		}
		require.InDelta(t, 4, own, 1e-5, "%s: two turns of a word and an end, of every row", term)
		require.InDelta(t, 1, aux, 1e-5, term)
	}
}

func TestTokenSumsAreDividedByAConstant(t *testing.T) {
	for _, given := range []float64{0, 32} {
		c := traintest.Whole()
		want := float64(c.Rollout.MaxTurns * c.Data.MaxResponse)
		c.Agent.Actor.Aggregation = "seq-mean-token-sum-norm"
		if given > 0 {
			c.Agent.Actor.ScaleFactor, want = &given, given
		}
		b := traintest.Guesser()
		traintest.Run(t, c, b)
		for i, w := range b.Updates[0].Batch.Weight {
			if w != 0 {
				require.Equal(t, float32(1/want), w, "token %d", i)
			}
		}
	}
}

// TestSettingsOfCorrectionsComeBackFromYAML: the default aggregation does not contradict a loss with its own.
func TestSettingsOfCorrectionsComeBackFromYAML(t *testing.T) {
	const corr = "algorithm.rollout_correction"
	got, err := config.Load("", "env.name=x", "actor_rollout_ref.actor.policy_loss.loss_mode=gspo",
		corr+".rollout_is=sequence", corr+".rollout_rs=token_k1,seq_mean_k3",
		corr+".rollout_rs_threshold='0.5_2.0,0.01'",
		"actor_rollout_ref.actor.kl_loss_type=low_var_kl+")
	require.NoError(t, err)
	raw, err := got.YAML()
	require.NoError(t, err)
	again, err := config.Load(traintest.WriteFile(t, string(raw)))
	require.NoError(t, err)
	require.Equal(t, got.Algorithm, again.Algorithm)
	require.Equal(t, got.Agent, again.Agent)
}

// other is a learner whose log-probs differ between sampling and scoring: by shift if it
// guessed 1, and by a small amount otherwise.
func other(shift float32) *traintest.Bandit {
	b := traintest.Guesser()
	b.OnScored = func(rows *policy.Rows, want []bool, s *policy.Scores) {
		for i, token := range rows.Tokens {
			switch {
			case !want[i] || token == b.End():
			case token > b.End():
				s.LogProbs[i] = 3 // the policy did not sample it
			case b.Words[token] == "1":
				s.LogProbs[i] += shift
			default:
				s.LogProbs[i] += 0.125
			}
		}
	}
	return b
}

// TestRolloutCorrectionReachesTheLearner: weights are truncated at the threshold, tokens beyond
// the bounds are excluded from the policy loss only, and both are reported.
func TestRolloutCorrectionReachesTheLearner(t *testing.T) {
	const corr = "algorithm.rollout_correction."
	weights, rejection := corr+"rollout_is=token ", corr+"rollout_rs=token_k1 "+corr+"rollout_rs_threshold=0.5_2.0"
	for name, c := range map[string]struct {
		set                       string
		noMask, weights, rejected bool
	}{
		"off":                    {"", false, false, false},
		"weights":                {weights, false, true, false},
		"weights without mask":   {weights, true, true, false},
		"rejection without mask": {rejection, true, false, true},
		"rejection":              {rejection, false, false, true},
		"both":                   {weights + rejection, false, true, true},
	} {
		cfg := traintest.Whole()
		cfg.Rollout.LossMask = !c.noMask
		traintest.Set(t, &cfg, c.set)
		b := other(1.5)
		tr, j := traintest.Trainer(t, cfg, b, nil)
		require.NoError(t, tr.Run(t.Context()))
		m, batch := (*j)[0].Metrics, b.Updates[0].Batch
		require.Equal(t, c.weights, batch.RolloutWeight != nil, name)
		ones := 0
		for i, token := range batch.Tokens {
			want, rejected, first := 1.0, false, false
			for _, from := range batch.Offsets {
				first = first || i == from
			}
			if b.IsWord(token) {
				want = math.Exp(0.125)
				if b.Words[token] == "1" {
					want, rejected = 2, c.rejected // e^1.5 is 4.5
					ones++
				}
			}
			counts := !first && (c.noMask || token <= b.End())
			require.Equal(t, counts && !rejected, batch.Weight[i] != 0, "%s: token %d", name, i)
			require.Equal(t, counts, batch.ValueWeight[i] != 0, "%s: the critic learns from all", name)
			if c.weights && counts {
				require.InDelta(t, want, batch.RolloutWeight[i], 1e-6, "%s: token %d", name, i)
			}
		}
		require.Positive(t, ones, "the policy must say 1 now and then")
		_, reported := m["rollout_corr/kl"]
		require.Equal(t, name != "off", reported, name)
		if c.rejected {
			require.InDelta(t, float64(ones)/32, m["rollout_corr/rollout_rs_masked_fraction"], 1e-12, name)
		}
	}
}

// TestBypassUsesTheSampledLogProbs: the learner is not asked for log-probs, and gets the
// recorded ones of the tokens that the model wrote.
func TestBypassUsesTheSampledLogProbs(t *testing.T) {
	for _, critic := range []bool{true, false} {
		cfg := traintest.Whole()
		cfg.Algorithm.Correction.Bypass = true
		if !critic {
			cfg.Algorithm.Estimator, cfg.Critic.Kind, cfg.Rollout.Trajectories = "grpo", "none", 2
		}
		b := traintest.Guesser()
		traintest.Run(t, cfg, b)
		for _, a := range b.Asked {
			require.Equal(t, policy.ScoreRequest{Values: true}, a.What, "and nothing where there is no critic")
		}
		require.Equal(t, critic, len(b.Asked) > 0)
		batch, words := b.Updates[0].Batch, 0
		for i, token := range batch.Tokens {
			if b.IsWord(token) && batch.Weight[i] != 0 {
				require.Less(t, batch.OldLogProbs[i], float32(0), "token %d", i)
				words++
			}
		}
		require.Positive(t, words)
	}
}

func TestImportanceWeightsCanBeNormalised(t *testing.T) {
	token := "token"
	c := traintest.Whole()
	c.Algorithm.Correction.Level, c.Algorithm.Correction.Normalize = &token, true
	b := other(1.5)
	traintest.Run(t, c, b)
	var sum, n float64
	for i, w := range b.Updates[0].Batch.RolloutWeight {
		if b.Updates[0].Batch.Weight[i] != 0 {
			sum, n = sum+float64(w), n+1
		}
	}
	require.InDelta(t, 1, sum/n, 1e-6)
}

// TestLossesHaveAnotherSeedInEveryUpdate, which is the same in a repeated run.
func TestLossesHaveAnotherSeedInEveryUpdate(t *testing.T) {
	seeds := func() (out []uint64) {
		c := traintest.Small()
		c.Agent.Actor.Epochs, c.Trainer.Steps = 2, 2
		b := traintest.Guesser()
		traintest.Run(t, c, b)
		for _, u := range b.Updates {
			out = append(out, u.Batch.Seed)
		}
		return out
	}
	first := seeds()
	require.Len(t, first, 8)
	require.Equal(t, first, seeds())
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(first))), 8)
}
