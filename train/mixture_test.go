package train_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/internal/traintest"
	"vagen/rollout"
	"vagen/train"
	"vagen/train/config"
)

// mixed is a list of two entries with weights, of which the second one has few start states.
const mixed = `
envs:
  - {name: guess, n_envs: 40, seed: [1, 40, 1], weight: 7, config: {turns: 2}}
  - {name: guess, n_envs: 4, seed: [501, 504, 1], data_source: few, weight: 3, max_turns: 1, reward_scale: 0.5, config: {turns: 2}}
`

func TestEveryStepHasTheSharesOfTheEntries(t *testing.T) {
	c, err := fromFiles(t, traintest.WriteFile(t, mixed), "data.train_batch_size=4")
	require.NoError(t, err)
	l, err := train.OpenLevels(t.Context(), &c, []string{"guess"})
	require.NoError(t, err)
	var many, few []int64
	for step := 1; step <= 100; step++ {
		before := len(few)
		for g := range 4 {
			e := l.At(step, g)
			if e.Source == "few" {
				few = append(few, e.Seed)
			} else {
				many = append(many, e.Seed)
			}
		}
		require.Contains(t, []int{1, 2}, len(few)-before, "0.3 of 4, rounded down or up")
		require.InDelta(t, 1.2*float64(step), len(few), 1.5)
		require.Contains(t, []string{"few", "default"}, l.At(step, 4).Source, "a replacement")
	}
	for _, of := range []struct {
		n     int
		seeds []int64
	}{{40, many}, {4, few}} {
		var orders []string
		for epoch := range slices.Chunk(of.seeds[:len(of.seeds)/of.n*of.n], of.n) {
			orders = append(orders, fmt.Sprint(epoch))
			slices.Sort(epoch)
			require.Len(t, slices.Compact(epoch), of.n, "each start state once in an epoch of its entry")
		}
		require.Greater(t, len(slices.Compact(orders)), 1, "epochs have different orders")
	}
	again, err := train.OpenLevels(t.Context(), &c, []string{"guess"})
	require.NoError(t, err)
	require.Equal(t, l.At(77, 3), again.At(77, 3), "no step depends on what was read before")
}

func TestEntriesHaveTurnsAndRewardsOfTheirOwn(t *testing.T) {
	c, err := fromFiles(t, traintest.WriteFile(t, mixed), "data.train_batch_size=8", "trainer.total_training_steps=1",
		"trainer.test_freq=-1",
		"trainer.val_before_train=false")
	require.NoError(t, err)
	tr, j := traintest.Trainer(t, c, traintest.Guesser(), nil)
	tr.Observer = traintest.Hooks{OnPlayed: func(_ int, ts []*rollout.Trajectory) error {
		for _, e := range ts {
			turns, wrong := 2, -0.5
			if e.Source == "few" {
				turns, wrong = 1, -0.25
			}
			require.Len(t, e.Turns, turns)
			for _, turn := range e.Turns {
				require.Contains(t, []float64{wrong, -2 * wrong}, turn.Reward.Sum())
			}
		}
		return nil
	}}
	require.NoError(t, tr.Run(t.Context()))
	m := (*j)[0].Metrics
	require.Equal(t, m["train/episodes"], m["train/by_source/few/episodes"]+m["train/by_source/guess/episodes"])
	require.Equal(t, 1.0, m["train/by_source/few/turns"])
	require.Equal(t, 2.0, m["train/by_source/guess/turns"])
}

// TestFilesDoNotShareEntries: entries with the same number in several files have their own options.
func TestFilesDoNotShareEntries(t *testing.T) {
	file := func(turns int) string {
		return traintest.WriteFile(t, fmt.Sprintf(`envs:
  - {name: guess, n_envs: 1, config: {turns: %d}}
  - {name: guess, n_envs: 1, config: {turns: %d}}`, turns, turns+1))
	}
	c, err := fromFiles(t, file(1)+","+file(3), "data.train_files=["+file(1)+","+file(3)+"]", "data.train_batch_size=4",
		"data.shuffle=false")
	require.NoError(t, err)
	l, err := train.OpenLevels(t.Context(), &c, []string{"guess"})
	require.NoError(t, err)
	for g := range 4 {
		require.Equal(t, int64(g+1), l.At(1, g).Config["turns"])
	}
}

func TestBadWeightsAreRefused(t *testing.T) {
	const entry = "{name: guess, n_envs: 3, config: {turns: 2}"
	for want, files := range map[string][2]string{
		"weight is set for an entry of guess, but not for one of guess, must be set for all or none": {entry +
			", weight: 1}, " + entry + "}"},
		"weight is 0, must be above 0 and at most 1e6": {entry +
			", weight: 0}"},
		"reward_scale is -1, must be above 0 and at most 1e6": {entry +
			", reward_scale: -1}"},
		"max_response_length is -1, must not be negative": {entry +
			", max_response_length: -1}"},
		"weight or reward_scale is set, but is supported only in data.train_files": {entry + "}", entry +
			", weight: 1}"},
	} {
		overrides := []string{}
		if files[1] != "" {
			overrides = append(overrides, "data.val_files=["+traintest.WriteFile(t, "envs: ["+files[1]+"]")+"]")
		}
		c, err := fromFiles(t, traintest.WriteFile(t, "envs: ["+files[0]+"]"), overrides...)
		require.NoError(t, err)
		_, err = train.OpenLevels(t.Context(), &c, []string{"guess"})
		testkit.Error(t, err, config.ErrConfig, want)
	}
}
