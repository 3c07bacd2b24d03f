package train_test

import (
	"context"
	"math"
	"slices"
	"strings"
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
		a.Loss.ClipCovRatio, a.Loss.ClipCovLow, a.Loss.ClipCovHigh, a.Loss.KLCovRatio, a.Loss.KLCovCoef = 0.1, 0.2, 0.3, 0.4,
			0.5
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

func TestLossSettingsAreChecked(t *testing.T) {
	const actor, corr = "actor_rollout_ref.actor.", "algorithm.rollout_correction"
	for set, want := range map[string]string{
		"algorithm.distillation.use_task_rewards=false":                                                                             "there is nothing to learn from",
		"algorithm.distillation.kl_penalty_coef=1":                                                                                  "ref.model.path is empty, so that the reference is the policy itself",
		"actor_rollout_ref.ref.model.path=T algorithm.distillation.kl_penalty_coef=1 algorithm.use_kl_in_reward=true":               "would add a second time",
		"actor_rollout_ref.ref.model.path=T algorithm.distillation.kl_penalty_coef=1 algorithm.distillation.use_task_rewards=false": "critic.kind is separate",
		"actor_rollout_ref.ref.model.path=T actor_rollout_ref.actor.policy_loss.loss_mode=ref_kl":                                   "ref_kl is all that is learned from",
		actor + "policy_loss.distillation_loss_coef=1":                                                                              "distillation_loss_coef learns from a teacher, but",
		"actor_rollout_ref.ref.model.path=T algorithm.distillation.use_task_rewards=false " + actor +
			"policy_loss.distillation_loss_coef=1": "to learn from the teacher alone set actor_rollout_ref.actor.policy_loss.loss_mode to opd",
		"actor_rollout_ref.ref.model.path=T " + actor + "use_kl_loss=true " + actor +
			"policy_loss.distillation_loss_coef=1": "would add a second time",
		"actor_rollout_ref.ref.model.path=T critic.kind=none algorithm.adv_estimator=reinforce_plus_plus " + actor +
			"policy_loss.loss_mode=opd " + actor + "policy_loss.distillation_loss_coef=1": "learns from a teacher alone, want 0",
		actor + "policy_loss.loss_mode=turn_gsop": `loss_mode: loss: policy loss "turn_gsop": unknown name, did you mean "turn_gspo"?`,
		actor + "clip_ratio_c=0.5":                "policy_loss: loss: policy loss \"vanilla\": loss: ppo: Dual = 0.5",
		actor + "policy_loss.loss_mode=sapo " + actor +
			"tau_neg=0": "sapo: TauNeg = 0",
		actor + "policy_loss.loss_mode=kl_cov " + actor +
			"policy_loss.kl_cov_ratio=2": "kl_cov: Ratio = 2",
		actor + "policy_loss.loss_mode=clip_cov " + actor +
			"policy_loss.clip_cov_lb=9": "clip_cov: CovLow = 9",
		actor + "policy_loss.loss_mode=gspo " + actor + "loss_agg_mode=seq-mean-token-sum " + actor +
			"entropy_coeff=0": "loss_agg_mode is seq-mean-token-sum, but actor_rollout_ref.actor.policy_loss.loss_mode gspo always uses seq-mean-token-mean",
		corr + ".rollout_is=tokens": corr + `: loss: correction: weight "tokens": unknown name, did you mean "token"?`,
		corr + ".rollout_is=token " + corr +
			".rollout_is_threshold=0": corr +
			": loss: correction: Threshold = 0",
		corr + ".rollout_is=token " + corr +
			".rollout_is_threshold=3_2": corr +
			`: rollout_is_threshold: loss: bounds "3_2": want lower_upper`,
		corr + ".bypass_mode=true " + corr +
			".rollout_is=token": corr +
			".rollout_is would correct it twice",
		corr + ".bypass_mode=true " + corr + ".rollout_rs=token_k1 " + corr +
			".rollout_rs_threshold=2": corr + ".rollout_rs compares sampling log-probs",
		corr + ".bypass_mode=true critic.kind=none rollout_manager.n_trajectory=2 algorithm.adv_estimator=tir_optimal_token_baseline": "reads the policy's probabilities before the update",
		corr + ".bypass_mode=true actor_rollout_ref.actor.policy_loss.loss_mode=m2po":                                                 "m2po compares sampling log-probs",
		"algorithm.echo.alpha=0.1 trainer.harness=no_concat algorithm.adv_estimator=token_level_gae":                                  "the rows of trainer.harness no_concat end with their only response",
		actor + "policy_loss.loss_mode=vespo " + corr + ".rollout_is=sequence": corr + ".rollout_is is sequence, " +
			"which gives every token the weight of the row",
		actor + "policy_loss.loss_mode=vespo " + corr + ".rollout_is=token " + corr +
			".rollout_is_batch_normalize=true": "vespo multiplies the rollout weights of a row's tokens, which " + corr,
		actor + "policy_loss.loss_mode=dppo_prime " + corr + ".rollout_is=token": "dppo_prime compares with the log-probs " +
			"of sampling, so that " + corr + ".rollout_is would correct the difference to training twice",
		actor + "clip_ratio_low=1 stability.clip_schedule.style=linear stability.clip_schedule.end_ratio=2": "stability." +
			"clip_schedule.end_ratio is 2, which multiplies the clip range: loss: policy loss \"vanilla\": loss: ppo: Low = 2",
		actor + "policy_loss.loss_mode=dro " + actor + "policy_loss.dro_beta=1 stability.clip_schedule.style=linear": "stability." +
			"clip_schedule.style is linear, but " + actor + "policy_loss.loss_mode dro has no clip range",
		"stability.kl_schedule.style=linear":                                                   "but actor_rollout_ref.actor.use_kl_loss is false, and so is algorithm.use_kl_in_reward",
		"stability.clip_schedule.end_ratio=0.5":                                                "but stability.clip_schedule.style is constant",
		"stability.spike.action=stop":                                                          "but stability.spike.metric is null",
		"stability.early_stopping.patience=2":                                                  "but stability.early_stopping.metric is null",
		"algorithm.echo.alpha=0.1 rollout_manager.use_loss_mask=false":                         "so that observations have the policy loss",
		corr + ".bypass_mode=true rollout_manager.use_loss_mask=false":                         "bypass_mode needs rollout_manager.use_loss_mask",
		corr + ".bypass_mode=true algorithm.use_kl_in_reward=true algorithm.kl_mask=attention": "algorithm.kl_mask is attention",
		corr + ".loss_type=reinforce":                                                          "cispo with bypass_mode",
		corr + ".rollout_rs_threshold_lower=0.5":                                               "write rollout_rs_threshold as lower_upper",
		corr + ".rollout_token_veto_threshold=1e-4":                                            "seq_max_k1",
		corr + ".rollout_rs=token_k4 " + corr +
			".rollout_rs_threshold='0.1'": corr +
			`: rollout_rs: loss: rejection "token_k4": unknown name`,
		actor + "policy_loss.loss_mode=turn_gspo algorithm.adv_estimator=trajectory_grpo critic.kind=none rollout_manager.n_trajectory=2": "the loss turn_gspo works on turns, but the estimator trajectory_grpo does not return turn ids",
		actor + "policy_loss.loss_mode=turn_ppo algorithm.adv_estimator=masked_gae":                                                       "the loss turn_ppo works on turns, but the estimator masked_gae does not return turn ids",
	} {
		_, err := config.Load("", append([]string{"env.name=x"}, strings.Fields(set)...)...)
		require.ErrorIs(t, err, config.ErrConfig, set)
		require.ErrorContains(t, err, want, set)
		require.NotContains(t, err.Error(), "\n", "%s: one mistake, one line", set)
	}
	got, err := config.Load("", "env.name=x", actor+"policy_loss.loss_mode=gspo", corr+".rollout_is=sequence", corr+
		".rollout_rs=token_k1,seq_mean_k3", corr+".rollout_rs_threshold='0.5_2.0,0.01'", actor+"kl_loss_type=low_var_kl+")
	require.NoError(t, err, "the default aggregation says nothing against a loss with its own")
	raw, err := got.YAML()
	require.NoError(t, err)
	again, err := config.Load(traintest.WriteFile(t, string(raw)))
	require.NoError(t, err)
	require.Equal(t, got.Algorithm, again.Algorithm)
	require.Equal(t, got.Agent, again.Agent)
	for _, set := range []string{"policy_loss.loss_mode=vespo " + corr + ".rollout_is=token",
		"clip_ratio_low=1 stability.clip_schedule.style=linear stability.clip_schedule.end_ratio=0",
		"policy_loss.loss_mode=dppo_kl " + actor + "clip_ratio_low=0.5 " + actor + "clip_ratio_high=0.05"} {
		_, err = config.Load("", append([]string{"env.name=x"}, strings.Fields(actor+set)...)...)
		require.NoError(t, err, set)
	}
	_, err = config.Load("", "env.name=x", corr+".rollout_is=null", corr+".rollout_rs=null", corr+
		".rollout_rs_threshold=null")
	require.NoError(t, err)
}

// other is a learner whose log-probs differ between sampling and scoring: by shift if it
// guessed 1, and by a small amount otherwise.
type other struct {
	*traintest.Bandit
	shift float32
}

func (o other) Score(
	ctx context.Context, rows *policy.Rows, want []bool, what policy.ScoreRequest, temperature float64,
) (*policy.Scores, error) {
	out, err := o.Bandit.Score(ctx, rows, want, what, temperature)
	for i, token := range rows.Tokens {
		switch {
		case !want[i] || token == o.End():
		case token > o.End():
			out.LogProbs[i] = 3 // the policy did not sample it
		case o.Words[token] == "1":
			out.LogProbs[i] += o.shift
		default:
			out.LogProbs[i] += 0.125
		}
	}
	return out, err
}

// TestRolloutCorrectionReachesTheLearner: weights are truncated at the threshold, tokens beyond
// the bounds are excluded from the policy loss only, and both are reported.
func TestRolloutCorrectionReachesTheLearner(t *testing.T) {
	token, reject, bounds := "token", "token_k1", "0.5_2.0"
	for name, c := range map[string]struct {
		set      func(*config.CorrectionConfig)
		noMask   bool
		weights  bool
		rejected bool
	}{
		"off":                  {func(*config.CorrectionConfig) {}, false, false, false},
		"weights":              {func(c *config.CorrectionConfig) { c.Level = &token }, false, true, false},
		"weights without mask": {func(c *config.CorrectionConfig) { c.Level = &token }, true, true, false},
		"rejection without mask": {func(c *config.CorrectionConfig) {
			c.Reject, c.Thresholds = &reject, &bounds
		}, true, false, true},
		"rejection": {func(c *config.CorrectionConfig) {
			c.Reject, c.Thresholds = &reject, &bounds
		}, false, false, true},
		"both": {func(c *config.CorrectionConfig) {
			c.Level, c.Reject, c.Thresholds = &token, &reject, &bounds
		}, false, true, true},
	} {
		cfg := traintest.Whole()
		cfg.Rollout.LossMask = !c.noMask
		c.set(&cfg.Algorithm.Correction)
		b := traintest.Guesser()
		tr, j := traintest.Trainer(t, cfg, b, &traintest.Arena{})
		tr.Learner = other{b, 1.5}
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
	b := traintest.Guesser()
	tr, _ := traintest.Trainer(t, c, b, &traintest.Arena{})
	tr.Learner = other{b, 1.5}
	require.NoError(t, tr.Run(t.Context()))
	var sum, n float64
	for i, w := range b.Updates[0].Batch.RolloutWeight {
		if b.Updates[0].Batch.Weight[i] != 0 {
			sum, n = sum+float64(w), n+1
		}
	}
	require.InDelta(t, 1, sum/n, 1e-6)
}

func TestTheLogRatioIsClampedByDefault(t *testing.T) {
	for _, clamp := range []bool{true, false} {
		c := traintest.Whole()
		c.Agent.Actor.Loss.Clamp = clamp
		b := traintest.Guesser()
		traintest.Run(t, c, b)
		require.Equal(t, loss.PPO{Low: 0.2, High: 0.2, Clamp: clamp}, b.Updates[0].Objective.Policy)
	}
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
