package train_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
	"vagen/internal/traintest"
	"vagen/train"
	"vagen/train/config"
)

// TestABareTrainerRefusesKeysThatNothingHonours sets every key of OuterKeys.
func TestABareTrainerRefusesKeysThatNothingHonours(t *testing.T) {
	otherValues := golden.Table[map[string]string](t, "keys.yaml")
	for _, key := range train.OuterKeys() {
		c := traintest.Small()
		require.Contains(t, otherValues, key)
		value, also, _ := strings.Cut(otherValues[key], " with ")
		require.NoError(t, c.Override(key+"="+value), key)
		for _, other := range strings.Fields(also) {
			require.NoError(t, c.Override(other), key)
		}
		run := func(handled ...string) error {
			tr, _ := traintest.Trainer(t, c, traintest.Guesser(), nil)
			tr.Handled = handled
			return tr.Run(t.Context())
		}
		err := run()
		require.ErrorIs(t, err, config.ErrConfig, key)
		require.ErrorContains(t, err, "a Trainer does not honour", key)
		require.ErrorContains(t, err, key)
		require.ErrorContains(t, err, "use train/run.Open, or list them in Trainer.Handled")
		require.NotContains(t, fmt.Sprint(run(key)), key+",", key)
		all := fmt.Sprint(run(train.OuterKeys()...))
		require.NotContains(t, all, "does not honour", key)
	}
}

// TestAllUnhandledKeysAreListed in one error, without those of handled groups.
func TestAllUnhandledKeysAreListed(t *testing.T) {
	c := traintest.Small()
	c.Model.BFloat16, c.Trainer.Project, c.Trainer.SaveFreq = true, "p", 2
	tr, _ := traintest.Trainer(t, c, traintest.Guesser(), nil)
	require.ErrorContains(t, tr.Run(t.Context()),
		"does not honour model.bfloat16, trainer.project_name, trainer.save_freq: use")
	tr.Handled, tr.Checkpointer = []string{"model."}, traintest.Hooks{}
	require.ErrorContains(t, tr.Run(t.Context()), "does not honour trainer.project_name: use")
	tr.Handled = append(tr.Handled, "trainer.project_name")
	require.NoError(t, tr.Run(t.Context()))
	tr.Handled = append(tr.Handled, "trainer.projekt_name")
	require.ErrorContains(t, tr.Run(t.Context()), `Trainer.Handled: "trainer.projekt_name"`)
}

// TestARollbackNeedsACheckpointerThatRollsBack before the first step.
func TestARollbackNeedsACheckpointerThatRollsBack(t *testing.T) {
	c := traintest.Small()
	c.Stability.Spike.Metric, c.Stability.Spike.Action, c.Trainer.SaveFreq = "actor/grad_norm", "rollback", 1
	tr, j := traintest.Trainer(t, c, traintest.Guesser(), nil)
	for _, without := range []train.Checkpointer{nil, struct{ train.Checkpointer }{traintest.Hooks{}}} {
		tr.Checkpointer = without
		require.ErrorContains(t, tr.Run(t.Context()), "stability.spike.action is rollback")
		require.Empty(t, *j)
	}
	tr.Checkpointer = traintest.Hooks{}
	require.NoError(t, tr.Run(t.Context()))
}
