package train_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/rollout"
	"vagen/train"
	"vagen/train/config"
	"vagen/train/track"
)

// stateful is a configuration whose steps depend on all that a State has: an adaptive KL
// coefficient and running statistics of rewards.
func stateful() config.Config {
	c := traintest.Small()
	c.Trainer.Steps = 5
	c.Algorithm.KLInReward = true
	c.Algorithm.KLCtrl = config.KLConfig{Type: "adaptive", Coef: 0.1, Target: 0.01, Horizon: 40}
	c.Reward = config.RewardConfig{
		Site: "turn_end", Aggregate: "per_turn", Normalize: "environment", Center: true, Running: true, Epsilon: 1e-8,
	}
	return c
}

// collectAndStep does a step and returns its event.
func collectAndStep(t *testing.T, tr *train.Trainer) track.Event {
	t.Helper()
	c, err := tr.Collect(t.Context(), tr.Done()+1)
	require.NoError(t, err)
	m, err := tr.Step(t.Context(), c)
	require.NoError(t, err)
	return track.Event{Kind: track.KindStep, Step: c.Step, Metrics: m}
}

// outcome is what a trainer has after some steps: weights and State.
func outcome(t *testing.T, tr *train.Trainer, b *traintest.Bandit) string {
	t.Helper()
	weights, err := b.Table()
	require.NoError(t, err)
	s, err := tr.State()
	require.NoError(t, err)
	state, err := json.Marshal(s)
	require.NoError(t, err)
	return string(weights) + string(state)
}

// TestCollectAndStepAreRun: repeated they give its metrics, weights and State, also with episodes
// that are collected ahead, and Run continues after them.
func TestCollectAndStepAreRun(t *testing.T) {
	for name, c := range map[string]config.Config{
		"plain": stateful(), "async": func() config.Config {
			c := stateful()
			c.Run.Async, c.Run.MaxStaleness = true, 2
			return c
		}(),
		"baselines": func() config.Config {
			c := stateful()
			c.Algorithm.Estimator, c.Critic.Kind = "remax", "none"
			c.Algorithm.KLInReward, c.Reward = false, config.Default().Reward
			return c
		}(),
	} {
		b := traintest.Guesser()
		tr, whole := traintest.Trainer(t, c, b, nil)
		require.NoError(t, tr.Run(t.Context()), name)
		want := outcome(t, tr, b)
		for _, steps := range []int{2, 5} {
			b := traintest.Guesser()
			tr, j := traintest.Trainer(t, c, b, nil)
			var got traintest.Journal
			for range steps {
				got = append(got, collectAndStep(t, tr))
			}
			require.Empty(t, *j, "events are Run's")
			require.NoError(t, tr.Run(t.Context()))
			require.Equal(t, traintest.Untimed(*whole), traintest.Untimed(append(got, *j...)), "%s: %d steps", name, steps)
			require.Equal(t, want, outcome(t, tr, b), name)
			require.Equal(t, len(b.SnapshotsAt), b.SnapshotsClosed)
		}
	}
}

// TestScoreChangesNothing, neither weights nor State, and shows what the update learns from.
func TestScoreChangesNothing(t *testing.T) {
	c := stateful()
	c.Agent.Actor.MiniBatch, c.Agent.Actor.Epochs = c.Data.TrainBatch, 1
	b := traintest.Guesser()
	tr, _ := traintest.Trainer(t, c, b, nil)
	collectAndStep(t, tr)
	before, updates := outcome(t, tr, b), len(b.Updates)
	played, err := tr.Collect(t.Context(), 2)
	require.NoError(t, err)
	scores, err := tr.Score(t.Context(), played)
	require.NoError(t, err)
	again, err := tr.Score(t.Context(), played)
	require.NoError(t, err)
	require.Equal(t, scores, again)
	later, err := tr.Collect(t.Context(), 4)
	require.NoError(t, err)
	_, err = tr.Score(t.Context(), later)
	require.NoError(t, err)
	require.Equal(t, before, outcome(t, tr, b))
	require.Len(t, b.Updates, updates)

	_, err = tr.Step(t.Context(), played)
	require.NoError(t, err)
	var advantages, learned float64
	for _, s := range scores {
		require.Len(t, s.Entropy, s.Len())
		for _, a := range s.Advantages {
			advantages += float64(a)
		}
	}
	for _, u := range b.Updates[updates:] {
		for _, a := range u.Batch.Advantages {
			learned += float64(a)
		}
	}
	require.InDelta(t, learned, advantages, 1e-5)
}

// TestRecordedEpisodesAreLearnedFrom as if they had just been played.
func TestRecordedEpisodesAreLearnedFrom(t *testing.T) {
	b := traintest.Guesser()
	tr, _ := traintest.Trainer(t, stateful(), b, nil)
	played, err := tr.Collect(t.Context(), 1)
	require.NoError(t, err)
	m, err := tr.Step(t.Context(), played)
	require.NoError(t, err)

	other := traintest.Guesser()
	again, _ := traintest.Trainer(t, stateful(), other, nil)
	n, err := again.Step(t.Context(), train.NewCollected(1, played.Episodes))
	require.NoError(t, err)
	require.Equal(t, traintest.Untimed(traintest.Journal{{Metrics: m}}),
		traintest.Untimed(traintest.Journal{{Metrics: n}}))
	require.Equal(t, outcome(t, tr, b), outcome(t, again, other))
}

// TestAStepThatFailedBeforeTheUpdateIsRepeated: whatever fails, the next attempt with the same
// episodes gives what a trainer without the failure has.
func TestAStepThatFailedBeforeTheUpdateIsRepeated(t *testing.T) {
	b := traintest.Guesser()
	undisturbed, _ := traintest.Trainer(t, stateful(), b, nil)
	for range 3 {
		collectAndStep(t, undisturbed)
	}
	want := outcome(t, undisturbed, b)

	fail := func(ctx context.Context) error { return traintest.ErrBroken }
	b = traintest.Guesser()
	tr, _ := traintest.Trainer(t, stateful(), b, nil)
	observed := traintest.ErrBroken
	tr.Observer = traintest.Hooks{OnPlayed: func(int, []*rollout.Trajectory) error { return observed }}
	c, err := tr.Collect(t.Context(), 1)
	require.NoError(t, err)
	_, err = tr.Step(t.Context(), c)
	require.ErrorIs(t, err, traintest.ErrBroken)
	observed = nil
	b.OnScore = fail
	_, err = tr.Step(t.Context(), c)
	require.ErrorIs(t, err, traintest.ErrBroken)
	b.OnScore = nil
	_, err = tr.Step(t.Context(), c)
	require.NoError(t, err)

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = tr.Collect(ended, 2)
	require.ErrorIs(t, err, context.Canceled)
	c, err = tr.Collect(t.Context(), 2)
	require.NoError(t, err)
	b.OnScore = func(ctx context.Context) error { return ctx.Err() }
	_, err = tr.Step(ended, c)
	require.ErrorIs(t, err, context.Canceled)
	_, err = tr.Step(t.Context(), c)
	require.NoError(t, err)
	collectAndStep(t, tr)
	require.Equal(t, want, outcome(t, tr, b))
}

// TestAnUpdateThatFailedNeedsACheckpoint: nothing is trained or scored with weights that belong to
// no step, until weights and State are restored.
func TestAnUpdateThatFailedNeedsACheckpoint(t *testing.T) {
	b := traintest.Guesser()
	tr, j := traintest.Trainer(t, stateful(), b, nil)
	collectAndStep(t, tr)
	weights, err := b.Table()
	require.NoError(t, err)
	state, err := tr.State()
	require.NoError(t, err)
	c, err := tr.Collect(t.Context(), 2)
	require.NoError(t, err)
	b.Alter = func(*policy.Batch, *policy.Stats) error { return traintest.ErrBroken }
	_, err = tr.Step(t.Context(), c)
	require.ErrorIs(t, err, traintest.ErrBroken)
	b.Alter = nil
	_, err = tr.Step(t.Context(), c)
	testkit.Error(t, err, train.ErrUnfinishedUpdate, "train: step 2: ")
	_, err = tr.Score(t.Context(), c)
	require.ErrorIs(t, err, train.ErrUnfinishedUpdate)
	_, err = tr.Collect(t.Context(), 2)
	require.ErrorIs(t, err, train.ErrUnfinishedUpdate)
	require.ErrorIs(t, tr.Run(t.Context()), train.ErrUnfinishedUpdate)

	require.NoError(t, b.SetTable(weights))
	require.NoError(t, tr.Restore(state))
	require.Empty(t, *j)
	require.NoError(t, tr.Run(t.Context()))
	whole := traintest.Guesser()
	first, _ := traintest.Trainer(t, stateful(), whole, nil)
	require.NoError(t, first.Run(t.Context()))
	require.Equal(t, outcome(t, first, whole), outcome(t, tr, b))
}

// TestEpisodesOfAnotherStepAreNotLearnedFrom.
func TestEpisodesOfAnotherStepAreNotLearnedFrom(t *testing.T) {
	tr, _ := traintest.Trainer(t, stateful(), traintest.Guesser(), nil)
	c, err := tr.Collect(t.Context(), 2)
	require.NoError(t, err)
	_, err = tr.Step(t.Context(), c)
	require.EqualError(t, err, "train: step: the episodes are of step 2, must be of step 1")
	_, err = tr.Step(t.Context(), nil)
	require.Error(t, err)
	_, err = tr.Score(t.Context(), nil)
	require.Error(t, err)
	lost := train.NewCollected(1, append(c.Episodes, nil))
	_, err = tr.Score(t.Context(), lost)
	require.EqualError(t, err, "train: the collected episode 8 is nil")
	_, err = tr.Step(t.Context(), lost)
	require.EqualError(t, err, "train: the collected episode 8 is nil")
	_, err = tr.Collect(t.Context(), 0)
	require.Error(t, err)
	_, err = tr.Score(t.Context(), train.NewCollected(1, nil))
	require.ErrorIs(t, err, train.ErrNoRows)
	require.Zero(t, tr.Done())
}

// TestEpisodesAheadEndWithTheirContext: their step says so, until the trainer is restored.
func TestEpisodesAheadEndWithTheirContext(t *testing.T) {
	c := stateful()
	c.Run.Async, c.Trainer.OnInterrupt = true, false
	b := traintest.Guesser()
	var calls atomic.Int64
	b.OnGenerate = func(ctx context.Context) error {
		if calls.Add(1) > 2 { // those of the first step's turns
			<-ctx.Done()
		}
		return ctx.Err()
	}
	tr, _ := traintest.Trainer(t, c, b, nil)
	first, cancel := context.WithCancel(t.Context())
	played, err := tr.Collect(first, 1)
	require.NoError(t, err)
	cancel()
	_, err = tr.Step(t.Context(), played)
	testkit.Error(t, err, context.Canceled,
		"train: step 2: the context with which its episodes were collected has ended")
	_, err = tr.Collect(t.Context(), 2)
	require.ErrorIs(t, err, train.ErrUnfinishedUpdate, "they belong to the state after the first step")
	b.OnGenerate = nil
	require.NoError(t, tr.Restore(train.State{}))
	collectAndStep(t, tr)
	require.Equal(t, 1, tr.Done())
}
