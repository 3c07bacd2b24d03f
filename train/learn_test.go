package train_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/traintest"
	"vagen/train"
	"vagen/train/config"
)

// updateCall is a call of Update.
type updateCall struct {
	Critic bool    // only the critic is updated
	Coef   float64 // of the value loss
	Rows   int
	Clip   float64
	Beta   float64
}

// calls returns the calls of Update so far.
func calls(b *traintest.Bandit) []updateCall {
	var out []updateCall
	for _, u := range b.Updates {
		out = append(out, updateCall{u.Objective.CriticOnly, u.Objective.ValueCoef, u.Batch.Len(), u.Optimizer.GradClip,
			u.Optimizer.Beta2})
	}
	return out
}

// TestASeparateCriticHasItsOwnPasses before those of the policy, with its own mini-batches and
// epochs. With equal settings both are updated together.
func TestASeparateCriticHasItsOwnPasses(t *testing.T) {
	base := func() config.Config {
		c := traintest.Small()
		c.Trainer.Steps, c.Data.TrainBatch, c.Rollout.Trajectories = 1, 4, 1
		c.Agent.Actor.MiniBatch, c.Agent.Actor.Epochs, c.Agent.Actor.GradClip = 4, 1, 1
		c.Critic.Kind, c.Critic.ValueCoef = "separate", 0.5
		c.Critic.Optim.Beta1, c.Critic.Optim.Beta2, c.Critic.Optim.Decay = c.Agent.Actor.Optim.Beta1,
			c.Agent.Actor.Optim.Beta2, c.Agent.Actor.Optim.Decay
		return c
	}
	beta := base().Critic.Optim.Beta2
	policy := updateCall{false, 0, 4, 1, beta}
	for name, x := range map[string]struct {
		set  string
		want []updateCall
	}{
		"the actor's": {"", []updateCall{{false, 0.5, 4, 1, beta}}},
		"mini-batches": {"critic.ppo_mini_batch_size=2",
			[]updateCall{{true, 0.5, 2, 1, beta}, {true, 0.5, 2, 1, beta}, policy}},
		"epochs":  {"critic.ppo_epochs=3", append(slices.Repeat([]updateCall{{true, 0.5, 4, 1, beta}}, 3), policy)},
		"clip":    {"critic.grad_clip=0.5", []updateCall{{true, 0.5, 4, 0.5, beta}, policy}},
		"moments": {"critic.optim.beta2=0.5", []updateCall{{true, 0.5, 4, 1, 0.5}, policy}},
		"warm-up": {"critic.grad_clip=0.5 trainer.critic_warmup=2 trainer.total_training_steps=2",
			[]updateCall{{true, 0.5, 4, 0.5, beta}, {true, 0.5, 4, 0.5, beta}, policy}},
		"no critic's": {
			"critic.grad_clip=0.5 critic.kind=none algorithm.adv_estimator=grpo rollout_manager.n_trajectory=2",
			[]updateCall{policy, policy},
		},
	} {
		c := base()
		traintest.Set(t, &c, x.set)
		b := traintest.Guesser()
		m := traintest.Run(t, c, b).Steps()[0].Metrics
		require.Equal(t, x.want, calls(b), name)
		if c.Critic.Kind == "separate" {
			require.Contains(t, m, "critic/vf_loss", name)
		}
		require.Equal(t, c.Trainer.CriticWarmup == 0, traintest.Has(m, "actor/lr"), name)
	}
	c := base()
	traintest.Set(t, &c, "critic.kind=shared critic.ppo_epochs=2")
	require.ErrorContains(t, c.Validate(), "critic.kind is shared: a shared critic is updated together with the policy")
}

// TestMiniBatchesAreShuffledOnRequest; otherwise they have the order of the episodes.
func TestMiniBatchesAreShuffledOnRequest(t *testing.T) {
	rows := func(shuffle bool) (out [][]int32) {
		c := traintest.Small()
		c.Trainer.Steps, c.Data.TrainBatch, c.Rollout.Trajectories, c.Agent.Actor.MiniBatch, c.Agent.Actor.Shuffle = 1, 8, 1,
			1, shuffle
		b := traintest.Guesser()
		traintest.Run(t, c, b)
		for _, u := range b.Updates {
			out = append(out, u.Batch.Tokens)
		}
		require.Equal(t, b.Asked[0].Rows.Len(), 8)
		if !shuffle {
			for i, r := range out {
				require.Equal(t, b.Asked[0].Rows.Tokens[b.Asked[0].Rows.Offsets[i]:b.Asked[0].Rows.Offsets[i+1]], r)
			}
		}
		return out
	}
	require.NotEqual(t, rows(true), rows(false))
	require.ElementsMatch(t, rows(true), rows(false))
}

func TestValidationLevelsArePlayedSeveralTimes(t *testing.T) {
	c := traintest.Small()
	c.Agent.Rollout.Val.Episodes, c.Data.ValBatch = 3, 2
	l, err := train.OpenLevels(t.Context(), &c, nil)
	require.NoError(t, err)
	var got [][3]int64
	for _, e := range l.Validation() {
		got = append(got, [3]int64{int64(e.Group), int64(e.Index), e.Seed - c.Env.ValSeed})
	}
	require.Equal(t, [][3]int64{{0, 0, 0}, {0, 1, 0}, {0, 2, 0}, {1, 0, 1}, {1, 1, 1}, {1, 2, 1}}, got)
}
