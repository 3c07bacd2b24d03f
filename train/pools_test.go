package train_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/traintest"
	"vagen/rollout"
	"vagen/train"
	"vagen/train/config"
)

// TestHardStartStatesArePlayedAgain: with these weights a start state is drawn only if at most half of its episodes
// succeeded when it was played last. The test repeats what the trainer knows from the episodes.
func TestHardStartStatesArePlayedAgain(t *testing.T) {
	c := traintest.Grouped()
	c.Data.Pools = config.PoolsConfig{Share: 0.5, Limits: []float64{0.5}, Weights: []float64{1, 0}}
	c.Trainer.Steps, c.Env.Seed = 6, 1000
	tr, j := traintest.Trainer(t, c, traintest.Guesser(), &traintest.Arena{})
	last, repeated := map[int64]float64{}, 0
	tr.Observer = traintest.Hooks{OnPlayed: func(step int, ts []*rollout.Trajectory) error {
		rates, seeds := map[int]float64{}, map[int]int64{}
		for _, e := range ts {
			seeds[e.Group] = e.Seed
			if e.Success {
				rates[e.Group] += 1 / float64(c.Rollout.Trajectories)
			}
		}
		now := map[int64]float64{}
		for g := range c.Data.TrainBatch {
			if next := c.Env.Seed + int64((step-1)*c.Data.TrainBatch+g); seeds[g] != next {
				repeated++
				was, ok := last[seeds[g]]
				require.True(t, ok && was <= 0.5, "step %d: seed %d was solved by %v", step, seeds[g], was)
			}
			now[seeds[g]] = rates[g]
		}
		for seed, rate := range now {
			last[seed] = rate
		}
		return nil
	}}
	require.NoError(t, tr.Run(t.Context()))
	require.Greater(t, repeated, 3)
	drawn := 0.0
	for _, e := range j.Steps() {
		drawn += e.Metrics["pool/drawn"]
	}
	require.Equal(t, float64(repeated), drawn)
	s, err := tr.State()
	require.NoError(t, err)
	for seed, rate := range last {
		require.InDelta(t, rate, s.Solved[seed-c.Env.Seed], 1e-9)
	}
	require.Len(t, s.Solved, len(last))
}

// TestDrawsResumeFromTheState: after Restore the draws are those of a run that was not stopped, also within entries.
func TestDrawsResumeFromTheState(t *testing.T) {
	c, err := fromFiles(t, traintest.WriteFile(t, mixed), "data.train_batch_size=8", "trainer.total_training_steps=6", "trainer.test_freq=-1",
		"trainer.val_before_train=false", "data.pools.share=1", "data.pools.weights=[3,1,0.1]")
	require.NoError(t, err)
	play := func(tr *train.Trainer, from, to int) (played []map[string]uint64) {
		for step := from; step <= to; step++ {
			got, err := tr.Collect(t.Context(), step)
			require.NoError(t, err)
			for _, e := range got.Episodes {
				require.Equal(t, e.Seed, tr.StartState(step, e.Group).Seed)
				played = append(played, map[string]uint64{e.Source: uint64(e.Seed)})
			}
			_, err = tr.Step(t.Context(), got)
			require.NoError(t, err)
		}
		return played
	}
	whole, _ := traintest.Trainer(t, c, traintest.Guesser(), &traintest.Arena{})
	want := play(whole, 1, 6)

	b := traintest.Guesser()
	first, _ := traintest.Trainer(t, c, b, &traintest.Arena{})
	got := play(first, 1, 3)
	s, err := first.State()
	require.NoError(t, err)
	raw, err := json.Marshal(s)
	require.NoError(t, err)
	var stored train.State
	require.NoError(t, json.Unmarshal(raw, &stored))
	c.Run.Workers = 8
	second, _ := traintest.Trainer(t, c, b, &traintest.Arena{})
	require.NoError(t, second.Restore(stored))
	require.Equal(t, want, append(got, play(second, 4, 6)...))

	stored.Solved[3] = 1.5
	require.ErrorContains(t, second.Restore(stored), "the rate of start state 3 is 1.5, must be in [0, 1]")
}

func TestBadPoolsAreRefused(t *testing.T) {
	for want, override := range map[string]string{
		"data.pools.share is 1.5": "data.pools.share=1.5",
		"data.pools.weights has 2 numbers, must have one more than the 2 of data.pools.solve_rates": "data.pools.weights=[1,2]",
		"data.pools.solve_rates is [0.5 0.5], must be increasing numbers in [0, 1)":                 "data.pools.solve_rates=[0.5,0.5]",
		"data.pools.weights is [1 -1 0], must be numbers in [0, 1e6]":                               "data.pools.weights=[1,-1,0]",
	} {
		_, err := config.Load("", "env=guess", "data.pools.share=0.5", override)
		require.ErrorIs(t, err, config.ErrConfig)
		require.ErrorContains(t, err, want)
	}
	_, err := config.Load("", "env=guess", "data.pools.share=0.5", "data.pools.weights=[0,0,0]", "data.pools.unseen=0")
	require.ErrorContains(t, err, "data.pools.weights and data.pools.unseen are all 0, at least one must be positive")
	_, err = config.Load("", "env=guess", "data.pools.unseen=0")
	require.ErrorContains(t, err, "data.pools.unseen")
}
