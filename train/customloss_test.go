package train_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/traintest"
	"vagen/policy/loss"
	"vagen/train/config"
)

// plainRatio is a custom loss: the surrogate without a clip.
type plainRatio struct{ scale float64 }

func (p plainRatio) Terms(t *loss.Terms, b *loss.Batch[float64]) error {
	t.Mode = loss.SeqMeanTokenSum
	for i, m := range b.Mask {
		if m {
			t.Loss[i] = -p.scale * b.Advantage[i] * math.Exp(t.LogRatio[i])
			t.Slope[i] = t.Loss[i]
		}
	}
	return nil
}

// TestARegisteredLossCanBeSelectedByName: it gets its settings and aggregation, and its check
// of the configuration is called.
func TestARegisteredLossCanBeSelectedByName(t *testing.T) {
	losses := loss.Builtin()
	require.NoError(t, losses.Register("plain_ratio", func(o loss.Options) (loss.Policy, error) {
		return plainRatio{o.ClipHigh}, nil
	}))
	names := config.Registries{Losses: losses}
	const mode = "actor_rollout_ref.actor.policy_loss.loss_mode=plain_ratio"
	_, err := config.Source{Overrides: []string{mode}, Unchecked: true}.Load()
	require.NoError(t, err)
	c := traintest.Whole()
	c.Agent.Actor.Loss.Mode, c.Agent.Actor.Entropy, c.Agent.Actor.Clip = "plain_ratio", 0, 0.25
	require.ErrorContains(t, c.Validate(), `"plain_ratio": unknown name`)
	require.NoError(t, names.Validate(&c))

	b := traintest.Guesser()
	tr, _ := traintest.Trainer(t, c, b, nil)
	tr.Registries = names
	require.NoError(t, tr.Run(t.Context()))
	u := b.Updates[0]
	require.Equal(t, plainRatio{0.25}, u.Objective.Policy)
	var sum float64
	for _, w := range u.Batch.Weight {
		sum += float64(w)
	}
	require.InDelta(t, 4, sum, 1e-5, "rows are averaged, the tokens of each are summed")

	_, err = names.LoadConfig("", mode, "actor_rollout_ref.actor.tau_pos=3")
	require.ErrorContains(t, err, "loss_mode plain_ratio does not read it; these do: sapo")
}
