package vagen_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen"
)

// told sums up what a learner was told to do, update by update.
type told struct {
	critic bool    // the critic alone
	coef   float64 // of the value loss
	rows   int
	clip   float64
	beta   float64
}

func (b *bandit) told() []told {
	var out []told
	for _, u := range b.updates {
		out = append(out, told{u.objective.CriticOnly, u.objective.ValueCoef, u.batch.Len(), u.optimizer.GradClip, u.optimizer.Beta2})
	}
	return out
}

// TestASeparateCriticHasPassesOfItsOwn: before the policy's, in its own mini-batches,
// as often as it says; with the same settings both are updated at once.
func TestASeparateCriticHasPassesOfItsOwn(t *testing.T) {
	base := func() vagen.Config {
		c := small()
		c.Trainer.Steps, c.Data.TrainBatch, c.Rollout.Trajectories = 1, 4, 1
		c.Agent.Actor.MiniBatch, c.Agent.Actor.Epochs, c.Agent.Actor.GradClip = 4, 1, 1
		c.Critic.Kind, c.Critic.ValueCoef = "separate", 0.5
		c.Critic.Optim.Beta1, c.Critic.Optim.Beta2, c.Critic.Optim.Decay = c.Agent.Actor.Optim.Beta1, c.Agent.Actor.Optim.Beta2, c.Agent.Actor.Optim.Decay
		return c
	}
	beta := base().Critic.Optim.Beta2
	both := told{false, 0.5, 4, 1, beta}
	two, three, half := 2, 3, 0.5
	for name, x := range map[string]struct {
		set  func(c *vagen.Config)
		want []told
	}{
		"the actor's":  {func(*vagen.Config) {}, []told{both}},
		"mini-batches": {func(c *vagen.Config) { c.Critic.MiniBatch = &two }, []told{{true, 0.5, 2, 1, beta}, {true, 0.5, 2, 1, beta}, {false, 0, 4, 1, beta}}},
		"epochs":       {func(c *vagen.Config) { c.Critic.Epochs = &three }, []told{{true, 0.5, 4, 1, beta}, {true, 0.5, 4, 1, beta}, {true, 0.5, 4, 1, beta}, {false, 0, 4, 1, beta}}},
		"clip":         {func(c *vagen.Config) { c.Critic.GradClip = &half }, []told{{true, 0.5, 4, 0.5, beta}, {false, 0, 4, 1, beta}}},
		"moments":      {func(c *vagen.Config) { c.Critic.Optim.Beta2 = 0.5 }, []told{{true, 0.5, 4, 1, 0.5}, {false, 0, 4, 1, beta}}},
		"warm-up":      {func(c *vagen.Config) { c.Critic.GradClip, c.Trainer.CriticWarmup = &half, 1 }, []told{{true, 0.5, 4, 0.5, beta}}},
		"no critic's": {func(c *vagen.Config) {
			c.Critic.GradClip, c.Critic.Kind, c.Algorithm.Estimator, c.Rollout.Trajectories = &half, "none", "grpo", 2
		}, []told{{false, 0, 4, 1, beta}, {false, 0, 4, 1, beta}}},
	} {
		c := base()
		x.set(&c)
		b := guesser()
		m := run(t, c, b).steps()[0].Metrics
		require.Equal(t, x.want, b.told(), name)
		if c.Critic.Kind == "separate" {
			require.Contains(t, m, "critic/vf_loss", name)
		}
		require.Equal(t, c.Trainer.CriticWarmup == 0, has(m, "actor/lr"), name)
	}
	c := base()
	c.Critic.Kind, c.Critic.Epochs = "shared", &two
	require.ErrorContains(t, c.Validate(), "critic.kind is shared: such a critic is updated with the policy")
}

// has reports whether a metric was measured.
func has(m vagen.Metrics, name string) bool {
	_, ok := m[name]
	return ok
}

// TestMiniBatchesAreDrawnOnRequest: in the order of the episodes otherwise.
func TestMiniBatchesAreDrawnOnRequest(t *testing.T) {
	rows := func(shuffle bool) (out [][]int32) {
		c := small()
		c.Trainer.Steps, c.Data.TrainBatch, c.Rollout.Trajectories, c.Agent.Actor.MiniBatch, c.Agent.Actor.Shuffle = 1, 8, 1, 1, shuffle
		b := guesser()
		run(t, c, b)
		for _, u := range b.updates {
			out = append(out, u.batch.Tokens)
		}
		require.Equal(t, b.asked[0].rows.Len(), 8)
		if !shuffle {
			for i, r := range out {
				require.Equal(t, b.asked[0].rows.Tokens[b.asked[0].rows.Offsets[i]:b.asked[0].rows.Offsets[i+1]], r)
			}
		}
		return out
	}
	require.NotEqual(t, rows(true), rows(false))
	require.ElementsMatch(t, rows(true), rows(false))
}

func TestKeysThatSayTheSameAgree(t *testing.T) {
	c, err := vagen.LoadConfig("", "env=x", "critic.enable=false", "algorithm.adv_estimator=grpo", "rollout_manager.n_trajectory=2",
		"actor_rollout_ref.model.enable_gradient_checkpointing=true", "actor_rollout_ref.rollout.val_kwargs.do_sample=false")
	require.NoError(t, err)
	require.Equal(t, "none", c.Critic.Kind)
	require.Equal(t, "blocks", c.Model.Recompute)
	require.Zero(t, c.Agent.Rollout.Val.Temperature)
	require.NoError(t, c.Override("actor_rollout_ref.model.enable_gradient_checkpointing=false"))
	require.Equal(t, "nothing", c.Model.Recompute)

	no, yes := false, true
	for want, set := range map[string]func(c *vagen.Config){
		"critic.enable is false, but critic.kind is separate":                   func(c *vagen.Config) { c.Critic.Enable = &no },
		"enable_gradient_checkpointing is true, but model.recompute is nothing": func(c *vagen.Config) { c.Agent.Model.Recompute = &yes },
		"do_sample is false, but val_kwargs.temperature is 1":                   func(c *vagen.Config) { c.Agent.Rollout.Val.DoSample = &no },
		"rollout.do_sample is false, but learning compares responses":           func(c *vagen.Config) { c.Agent.Rollout.DoSample = &no },
	} {
		c := vagen.Default()
		c.Env.Name = "x"
		set(&c)
		require.ErrorContains(t, c.Validate(), want)
	}
}

func TestWarmUpCountsStepsOrAShare(t *testing.T) {
	rates := func(steps int, ratio float64) (out []float64) {
		c := small()
		c.Trainer.Steps, c.Agent.Actor.Optim.Rate, c.Agent.Actor.Optim.WarmupSteps, c.Agent.Actor.Optim.WarmupRatio = 4, 1, steps, ratio
		for _, e := range run(t, c, guesser()).steps() {
			out = append(out, e.Metrics["actor/lr"])
		}
		return out
	}
	require.Equal(t, []float64{0.5, 1, 1, 1}, rates(-1, 0.5))
	require.Equal(t, []float64{0.25, 0.5, 0.75, 1}, rates(4, 0.5))
	require.Equal(t, []float64{1, 1, 1, 1}, rates(0, 0))
}

func TestValidationLevelsArePlayedSeveralTimes(t *testing.T) {
	c := small()
	c.Agent.Rollout.Val.Episodes, c.Data.ValBatch = 3, 2
	l, err := vagen.OpenLevels(t.Context(), &c, nil)
	require.NoError(t, err)
	var got [][3]int64
	for _, e := range l.Validation() {
		got = append(got, [3]int64{int64(e.Group), int64(e.Index), e.Seed - c.Env.ValSeed})
	}
	require.Equal(t, [][3]int64{{0, 0, 0}, {0, 1, 0}, {0, 2, 0}, {1, 0, 1}, {1, 1, 1}, {1, 2, 1}}, got)
}
