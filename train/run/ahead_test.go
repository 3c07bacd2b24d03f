package run_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/train"
	"vagen/train/config"
	"vagen/train/run"
	"vagen/train/track"
)

// ahead is a run that collects ahead, with importance weights and all parts of a
// checkpoint's state.
func ahead(c config.Config) config.Config {
	c.Run.Async = true
	token := "token"
	c.Algorithm.Correction.Level = &token
	return c
}

// TestEpisodesAreCollectedWithThePolicyBeforeTheUpdate: the first step is on policy,
// the policy of every other step is one update old, and nothing is collected for steps
// after the last one.
func TestEpisodesAreCollectedWithThePolicyBeforeTheUpdate(t *testing.T) {
	c := ahead(traintest.Small())
	c.Trainer.Steps = 5
	b := traintest.Guesser()
	j := traintest.Run(t, c, b)
	perStep := len(b.Updates) / 5
	require.Equal(t, []int{0, perStep, 2 * perStep, 3 * perStep}, b.SnapshotsAt, "snapshots are created before the updates of steps 1 to 4")
	require.Equal(t, 4, b.SnapshotsClosed)
	require.Len(t, b.Seeds, 8*2, "the learner itself plays the first step alone")
	for i, e := range j.Steps() {
		off := e.Metrics["rollout_corr/rollout_is_max"] - 1 // float32 rounds what was sampled
		require.Equal(t, i > 0, off > 1e-3, "step %d: %v", e.Step, off)
	}

	c.Run.Async = false
	sync := traintest.Guesser()
	k := traintest.Run(t, c, sync)
	require.Empty(t, sync.SnapshotsAt)
	first := traintest.Untimed(j)[0]
	delete(first, "rollout/staleness_mean")
	delete(first, "rollout/staleness_max")
	require.Equal(t, traintest.Untimed(k)[0], first, "the first step is the same")
	require.NotEqual(t, traintest.Untimed(k)[1], traintest.Untimed(j)[1])
	require.Equal(t, sync.Updates[:perStep], b.Updates[:perStep])
	for _, u := range b.Updates[perStep:] {
		require.NotNil(t, u.Batch.RolloutWeight)
	}
}

// TestCollectingAheadRepeatsItself: the results are bit-identical with any number of
// workers and processors, for every harness.
func TestCollectingAheadRepeatsItself(t *testing.T) {
	for _, harness := range []string{"concat", "no_concat", "window", "compact"} {
		play := func(workers int) ([]map[string]uint64, []traintest.Update) {
			c := ahead(traintest.Split(harness))
			c.Run.Workers, c.Trainer.Steps = workers, 3
			b := traintest.Guesser()
			j := traintest.Run(t, c, b)
			return traintest.Untimed(j), b.Updates
		}
		metrics, updates := play(1)
		require.NotEqual(t, updates[0].Batch.OldLogProbs, updates[len(updates)-1].Batch.OldLogProbs, "it learns")
		for _, procs := range []int{1, 2} {
			before := runtime.GOMAXPROCS(procs)
			for _, workers := range []int{1, 2, 8} {
				m, u := play(workers)
				require.Equal(t, metrics, m, "%s: %d processors, %d workers", harness, procs, workers)
				require.Equal(t, updates, u)
			}
			runtime.GOMAXPROCS(before)
		}
	}
}

// TestARunThatCollectsAheadResumesFromEveryCheckpoint: the episodes of the next step,
// ReMax's greedy episodes included, are part of a checkpoint, so that a resumed run equals
// an uninterrupted one.
func TestARunThatCollectsAheadResumesFromEveryCheckpoint(t *testing.T) {
	t.Parallel()
	remax := brisk()
	remax.Algorithm.Estimator = "remax"
	for name, c := range map[string]config.Config{"bi_level_gae": ahead(brisk()), "remax": ahead(remax)} {
		whole := requireResumesAfterEveryEvent(t, name, c)
		held := filepath.Join(whole, "checkpoints", "step_4", "ahead")
		require.FileExists(t, filepath.Join(held, "episodes.parquet"))
		require.NoDirExists(t, filepath.Join(whole, "checkpoints", "step_6", "ahead"), "no step comes after the last one")

		require.NoError(t, os.RemoveAll(held))
		_, err := run.OpenCheckpoint(t.Context(), filepath.Dir(held))
		require.ErrorIs(t, err, run.ErrTorn)
	}
}

// requireResumesAfterEveryEvent stops a run at each of its events and resumes it, which must give
// the outcome of an uninterrupted run, whose folder is returned.
func requireResumesAfterEveryEvent(t *testing.T, about string, c config.Config) (whole string) {
	t.Helper()
	whole = filepath.Join(t.TempDir(), "whole")
	require.NoError(t, trainIn(t.Context(), whole, c, nil))
	want := outcome(t, whole)
	for stop := 1; stop <= 9; stop++ {
		dir := filepath.Join(t.TempDir(), "run")
		events := 0
		require.ErrorIs(t, trainIn(t.Context(), dir, c, func(tr *train.Trainer) {
			tr.Sinks = append(tr.Sinks, track.SinkFunc(func(track.Event) error {
				if events++; events == stop {
					return traintest.ErrBroken
				}
				return nil
			}))
		}), traintest.ErrBroken)
		require.NoError(t, trainIn(t.Context(), dir, c, nil), "%s: after event %d", about, stop)
		require.Equal(t, want, outcome(t, dir), "%s: after event %d", about, stop)
	}
	return whole
}

// TestAnInterruptedRunThatCollectsAheadLeavesNoTrace cancels in the middle of an
// update and of the episodes that are collected during it.
func TestAnInterruptedRunThatCollectsAheadLeavesNoTrace(t *testing.T) {
	t.Parallel()
	c := ahead(brisk())
	whole := filepath.Join(t.TempDir(), "whole")
	require.NoError(t, trainIn(t.Context(), whole, c, nil))
	want := outcome(t, whole)
	for _, phase := range []string{"collect", "score", "update"} {
		for call := 1; call <= 5; call += 2 {
			dir := filepath.Join(t.TempDir(), "run")
			ctx, cancel := context.WithCancel(t.Context())
			calls := 0
			act := func() {
				if calls++; calls == call {
					cancel()
				}
			}
			err := trainIn(ctx, dir, c, func(tr *train.Trainer) {
				b := tr.Learner.(*traintest.Bandit)
				switch phase {
				case "collect":
					b.OnGenerate = func(ctx context.Context) error { act(); return ctx.Err() }
				case "score":
					b.OnScore = func(ctx context.Context) error { act(); return ctx.Err() }
				case "update":
					b.Alter = func(*policy.Batch, *policy.Stats) error { act(); return nil }
				}
			})
			cancel()
			require.ErrorIs(t, err, context.Canceled, "%s %d", phase, call)
			require.NoError(t, trainIn(t.Context(), dir, c, nil), "%s %d", phase, call)
			require.Equal(t, want, outcome(t, dir), "%s %d", phase, call)
		}
	}
}

// TestFailuresOfWhatIsCollectedAheadEndTheRun: whether the update or the collection
// fails, both have ended when Run returns.
func TestFailuresOfWhatIsCollectedAheadEndTheRun(t *testing.T) {
	for _, who := range []string{"collect", "learn"} {
		b := traintest.Guesser()
		tr, j := traintest.Trainer(t, ahead(traintest.Small()), b, &traintest.Arena{})
		calls := 0
		if who == "collect" {
			b.OnGenerate = func(context.Context) error {
				if calls++; calls > 2 { // two turns are the first step's
					return traintest.ErrBroken
				}
				return nil
			}
		} else {
			b.Alter = func(*policy.Batch, *policy.Stats) error { return traintest.ErrBroken }
		}
		require.ErrorIs(t, tr.Run(t.Context()), traintest.ErrBroken, who)
		require.Equal(t, len(b.SnapshotsAt), b.SnapshotsClosed, "every snapshot is closed")
		require.Empty(t, j.Steps())
	}
}

// noSnapshots hides the bandit's policy.PolicySnapshotter.
type noSnapshots struct{ policy.Learner }

func TestWhatContradictsCollectingAheadIsRefused(t *testing.T) {
	tr, _ := traintest.Trainer(t, ahead(traintest.Small()), traintest.Guesser(), &traintest.Arena{})
	tr.Learner = noSnapshots{tr.Learner}
	err := tr.Run(t.Context())
	require.ErrorIs(t, err, config.ErrConfig)
	require.ErrorContains(t, err, "does not implement policy.PolicySnapshotter")

	c := ahead(traintest.Small())
	c.Agent.Actor.Loss.Mode = "gpg"
	require.NoError(t, c.Validate(), "importance weights correct for it")
	c.Algorithm.Correction.Level = nil
	require.ErrorContains(t, c.Validate(), "run.async")

	s := train.State{Step: 3, Prefetched: train.PrefetchedSteps{{Step: 3}}}
	require.ErrorContains(t, new(train.Trainer).Restore(s), "for step 3")
	require.True(t, strings.HasPrefix(fmt.Sprint(new(train.Trainer).Restore(s)), "train: "))
}

// BenchmarkStep is a step in which both sides have to wait: environments that take two or
// twelve milliseconds a turn, and four optimiser steps of two milliseconds. Collecting ahead
// hides the shorter wait behind the longer one; collecting several steps ahead hides episodes
// that take longer than an update.
func BenchmarkStep(b *testing.B) {
	for _, turn := range []time.Duration{2, 12} {
		for _, ahead := range []int{0, 1, 2, 3} {
			b.Run(fmt.Sprintf("turns of %d ms/%d ahead", turn, ahead), func(b *testing.B) {
				c := traintest.Small()
				c.Run.Async, c.Run.MaxStaleness, c.Run.Workers, c.Agent.Actor.MiniBatch = ahead > 0, max(1, ahead), 8, 2
				c.Trainer.Steps, c.Trainer.Metrics = b.N, []string{"none"}
				g := traintest.Guesser()
				g.Alter = func(*policy.Batch, *policy.Stats) error { time.Sleep(2 * time.Millisecond); return nil }
				tr, _ := traintest.Trainer(b, c, g, &traintest.Arena{Fault: func(int64, int) error { time.Sleep(turn * time.Millisecond); return nil }})
				tr.Sinks = nil
				b.ResetTimer()
				require.NoError(b, tr.Run(b.Context()))
			})
		}
	}
}
