package train_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/internal/traintest"
	"vagen/rollout"
	"vagen/train"
	"vagen/train/config"
)

// TestHardStartStatesArePlayedAgain: with these weights a start state is drawn only if at most half of its episodes
// succeeded when it was played last. The test repeats what the trainer knows from the episodes.
func TestHardStartStatesArePlayedAgain(t *testing.T) {
	c := traintest.Grouped()
	c.Data.Pools = config.PoolsConfig{Share: 0.5, Limits: []float64{0.5}, Weights: []float64{1, 0}, Gate: config.GateNone}
	c.Trainer.Steps, c.Env.Seed = 6, 1000
	tr, j := traintest.Trainer(t, c, traintest.Guesser(), nil)
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
	c, err := fromFiles(t, traintest.WriteFile(t, mixed), "data.train_batch_size=8", "trainer.total_training_steps=6",
		"trainer.test_freq=-1",
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
	whole, _ := traintest.Trainer(t, c, traintest.Guesser(), nil)
	want := play(whole, 1, 6)

	b := traintest.Guesser()
	first, _ := traintest.Trainer(t, c, b, nil)
	got := play(first, 1, 3)
	s, err := first.State()
	require.NoError(t, err)
	raw, err := json.Marshal(s)
	require.NoError(t, err)
	stored := testkit.JSON[train.State](t, raw)
	c.Run.Workers = 8
	second, _ := traintest.Trainer(t, c, b, nil)
	require.NoError(t, second.Restore(stored))
	require.Equal(t, want, append(got, play(second, 4, 6)...))

	stored.Solved[3] = 1.5
	require.ErrorContains(t, second.Restore(stored), "the rate of start state 3 is 1.5, must be in [0, 1]")
}

// TestTheGateLeavesGroupsWithoutAdvantagesOut of the update, whatever else is in it.
func TestTheGateLeavesGroupsWithoutAdvantagesOut(t *testing.T) {
	c := traintest.Grouped()
	c.Algorithm.Estimator, c.Critic.Kind, c.Trainer.Steps = "trajectory_grpo", "none", 1
	plain := traintest.Guesser()
	traintest.Run(t, c, plain)
	all := plain.Updates[0].Batch
	const low, high = -1.2, 1.5 // one good episode of three: 1.41, -0.71, -0.71; two good ones: -1.41, 0.71, 0.71
	var want [][]int32
	n := c.Rollout.Trajectories
	for first := 0; first < all.Len(); first += n {
		out := false
		for i := all.Offsets[first]; i < all.Offsets[first+n]; i++ {
			out = out || all.Weight[i] != 0 && (all.Advantages[i] < low || all.Advantages[i] > high)
		}
		for row := first; out && row < first+n; row++ {
			want = append(want, all.Tokens[all.Offsets[row]:all.Offsets[row+1]])
		}
	}
	c.Data.Pools.Gate, c.Data.Pools.RejectMin, c.Data.Pools.RejectMax = config.GateAdvantageRange, low, high
	b := traintest.Guesser()
	m := traintest.Run(t, c, b)[0].Metrics
	batch := b.Updates[0].Batch
	var got [][]int32
	for row := range batch.Len() {
		got = append(got, batch.Tokens[batch.Offsets[row]:batch.Offsets[row+1]])
	}
	require.Equal(t, want, got)
	require.Equal(t, float64(all.Len()-len(want))/float64(n), m["gate/rejected"])
	require.NotZero(t, m["gate/rejected"])
	require.NotEmpty(t, want)

	c.Data.Pools.RejectMin, c.Data.Pools.RejectMax = -100, 100
	b = traintest.Guesser()
	traintest.Run(t, c, b)
	require.Empty(t, b.Updates, "a step without groups has no update")
}
