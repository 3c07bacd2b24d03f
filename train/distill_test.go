package train_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/policy/loss"
	"vagen/train/config"
)

// TestATeacherIsLearnedFrom beside the estimator's advantages, or alone.
func TestATeacherIsLearnedFrom(t *testing.T) {
	for _, alone := range []bool{true, false} {
		var adv [2][]float32
		for i, coef := range []float64{0, 0.5} {
			c := traintest.Grouped()
			c.Algorithm.Estimator, c.Critic.Kind, c.Trainer.Steps = "grpo", "none", 1
			c.Agent.Ref.Model.Path = "teacher"
			c.Algorithm.Distill.Coef, c.Algorithm.Distill.Task = coef, !alone || coef == 0
			b := traintest.Guesser()
			tr, events := traintest.Trainer(t, c, b, nil)
			tr.Handled = []string{"actor_rollout_ref.ref.model.path"}
			require.NoError(t, tr.Run(t.Context()))
			batch := b.Updates[0].Batch
			adv[i] = batch.Advantages
			if coef == 0 {
				require.Nil(t, batch.Reference)
				continue
			}
			require.Contains(t, (*events)[0].Metrics, "actor/teacher_kl")
			for k, w := range batch.Weight {
				if w == 0 {
					continue
				}
				want := -0.5 * (batch.OldLogProbs[k] - batch.Reference[k])
				if !alone {
					want += adv[0][k]
				}
				require.InDelta(t, want, adv[i][k], 1e-6)
			}
		}
	}
}

// TestATeacherIsLearnedFromBesideRewards in the loss, with the critic's advantages.
func TestATeacherIsLearnedFromBesideRewards(t *testing.T) {
	c := traintest.Whole()
	c.Agent.Ref.Model.Path, c.Agent.Actor.Loss.DistillCoef = "teacher", 0.5
	b := traintest.Guesser()
	tr, _ := traintest.Trainer(t, c, b, nil)
	tr.Handled = []string{"actor_rollout_ref.ref.model.path"}
	require.NoError(t, tr.Run(t.Context()))
	got := b.Updates[0]
	require.IsType(t, loss.Taught{}, got.Objective.Policy)
	require.Equal(t, "separate", c.Critic.Kind)
	require.Len(t, got.Batch.Reference, len(got.Batch.Tokens))
	for i, w := range got.Batch.Weight {
		require.True(t, w == 0 || got.Batch.Advantages[i] != 0, "token %d", i)
	}
}

// TestATeacherAloneNeedsNoEstimator: that of the default configuration needs a critic, which is not there.
func TestATeacherAloneNeedsNoEstimator(t *testing.T) {
	for _, coef := range []float64{0, 0.5} {
		c := traintest.Whole()
		c.Algorithm.Estimator, c.Critic.Kind, c.Trainer.Steps = config.Default().Algorithm.Estimator, "none", 1
		c.Agent.Ref.Model.Path = "teacher"
		if c.Agent.Actor.Loss.Mode = "ref_kl"; coef > 0 {
			c.Agent.Actor.Loss.Mode, c.Algorithm.Distill.Coef, c.Algorithm.Distill.Task = "vanilla", coef, false
		}
		b := traintest.Guesser()
		tr, events := traintest.Trainer(t, c, b, nil)
		tr.Handled = []string{"actor_rollout_ref.ref.model.path"}
		require.NoError(t, tr.Run(t.Context()))
		batch := b.Updates[0].Batch
		for k, w := range batch.Weight {
			if w != 0 {
				require.InDelta(t, -coef*float64(batch.OldLogProbs[k]-batch.Reference[k]), batch.Advantages[k], 1e-6)
			}
		}
		for name := range (*events)[0].Metrics {
			require.NotContains(t, name, "_failed/")
		}
		c.Algorithm.Distill = config.Default().Algorithm.Distill
		c.Agent.Actor.Loss.Mode, c.Agent.Ref.Model.Path = "vanilla", ""
		require.ErrorContains(t, c.Validate(), "needs values, but critic.kind is none")
	}
	teacher := []string{"env=x", "critic.kind=none", "actor_rollout_ref.ref.model.path=T", "trainer.harness=no_concat",
		"actor_rollout_ref.actor.entropy_coeff=0", "actor_rollout_ref.actor.policy_loss.loss_mode=ref_kl"}
	c, err := config.Load("", teacher...)
	require.NoError(t, err)
	require.Empty(t, c.Notes)
	c, err = config.Load("", append(teacher, "algorithm.adv_estimator=grpo")...)
	require.NoError(t, err)
	require.Len(t, c.Notes, 1)
	require.Contains(t, c.Notes[0].String(), "nothing is learned from its advantages")
}

// checked is a learner that knows its vocabulary.
type checked struct {
	*traintest.Bandit
	asked []policy.ScoreRequest
}

func (c *checked) CheckScore(what policy.ScoreRequest) error {
	c.asked = append(c.asked, what)
	if what.Choice.K > len(c.Words) {
		return fmt.Errorf("%d tokens are compared, must be 1 to %d", what.Choice.K, len(c.Words))
	}
	return nil
}

// TestComparedTokensAreCheckedBeforeEpisodes against the vocabulary, by the setting that says how many they are.
func TestComparedTokensAreCheckedBeforeEpisodes(t *testing.T) {
	for _, mode := range []string{"opd", "sdft", "vanilla"} {
		c := traintest.Grouped()
		c.Algorithm.Estimator, c.Critic.Kind, c.Trainer.Steps = "grpo", "none", 1
		c.Agent.Ref.Model.Path = "teacher"
		l := &c.Agent.Actor.Loss
		l.Mode, l.DistillKL, l.DistillTopK, l.SDFTTopK = mode, loss.ForwardTopK, 300, 400
		says := map[string]string{"opd": "actor_rollout_ref.actor.policy_loss.topk: 300 tokens are compared, must be 1 to 4",
			"sdft": "policy_loss.distillation_topk: 400 tokens are compared"}[mode]
		if mode == "vanilla" {
			c.Agent.Ref.Model.Path = ""
		}
		learner := &checked{Bandit: traintest.Guesser()}
		tr, _ := traintest.Trainer(t, c, learner.Bandit, nil)
		tr.Learner, tr.Handled = learner, []string{"actor_rollout_ref.ref.model.path"}
		err := tr.Run(t.Context())
		if says == "" {
			require.NoError(t, err)
			require.Empty(t, learner.asked)
			continue
		}
		testkit.Error(t, err, config.ErrConfig, says)
		require.Empty(t, learner.Seeds, "nothing was generated")
		require.Len(t, learner.asked, 1)
	}
}

// TestARegisteredLossLearnsFromTheNamedTeacher, beside the advantages that it may read.
func TestARegisteredLossLearnsFromTheNamedTeacher(t *testing.T) {
	losses := loss.Builtin()
	mine := loss.Distill{KL: loss.K1, Policy: loss.Reinforce{}}
	require.NoError(t, losses.Register("mine", func(loss.Options) (loss.Policy, error) { return mine, nil }))
	c := traintest.Grouped()
	c.Algorithm.Estimator, c.Critic.Kind, c.Trainer.Steps = "grpo", "none", 1
	c.Agent.Ref.Model.Path, c.Agent.Actor.Loss.Mode = "teacher", "mine"
	b := traintest.Guesser()
	tr, _ := traintest.Trainer(t, c, b, nil)
	tr.Registries = config.Registries{Losses: losses}
	tr.Handled = []string{"actor_rollout_ref.ref.model.path"}
	require.NoError(t, tr.Run(t.Context()))
	got := b.Updates[0]
	require.Equal(t, mine, got.Objective.Policy)
	require.Len(t, got.Batch.Reference, len(got.Batch.Tokens))
	require.NotZero(t, slices.Max(got.Batch.Advantages))
}

// TestTheFirstTokensAreLeftOut of the loss and of its means.
func TestTheFirstTokensAreLeftOut(t *testing.T) {
	var weights [2][]float32
	for skip := range weights {
		c := traintest.Grouped()
		c.Algorithm.Estimator, c.Critic.Kind, c.Trainer.Steps = "grpo", "none", 1
		c.Agent.Ref.Model.Path, c.Agent.Actor.Aggregation = "teacher", "seq-mean-token-mean"
		l := &c.Agent.Actor.Loss
		l.Mode, l.SDFTMode, l.SDFTAlpha, l.Skip = "sdft", "sampled_token", 1, skip
		b := traintest.Guesser()
		tr, _ := traintest.Trainer(t, c, b, nil)
		tr.Handled = []string{"actor_rollout_ref.ref.model.path"}
		require.NoError(t, tr.Run(t.Context()))
		batch := b.Updates[0].Batch
		weights[skip] = batch.Weight
		if skip == 0 {
			continue
		}
		for r := range batch.Len() {
			first, sum, left := true, float32(0), 0
			for i := batch.Offsets[r]; i < batch.Offsets[r+1]; i++ {
				if weights[0][i] != 0 {
					require.Equal(t, first, batch.Weight[i] == 0, "token %d", i)
					first = false
				}
				if batch.Weight[i] != 0 {
					sum, left = sum+batch.Weight[i], left+1
				}
			}
			require.Positive(t, left)
			require.InDelta(t, 1/float64(batch.Len()), sum, 1e-6, "row %d", r)
		}
	}
}
