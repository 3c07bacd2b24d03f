package vagen_test

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

	"vagen"
	"vagen/policy"
)

// ahead is a run that collects ahead, with importance weights and all that a state
// holds.
func ahead(c vagen.Config) vagen.Config {
	c.Run.Async = true
	token := "token"
	c.Algorithm.Correction.Level = &token
	return c
}

// TestEpisodesAreCollectedWithThePolicyBeforeTheUpdate: the first step is on
// policy, every other one lags by a step's update; nothing is collected for steps
// that do not come.
func TestEpisodesAreCollectedWithThePolicyBeforeTheUpdate(t *testing.T) {
	c := ahead(small())
	c.Trainer.Steps = 5
	b := guesser()
	j := run(t, c, b)
	perStep := len(b.updates) / 5
	require.Equal(t, []int{0, perStep, 2 * perStep, 3 * perStep}, b.lent, "lent before the update of steps 1 to 4")
	require.Equal(t, 4, b.returned)
	require.Len(t, b.seeds, 8*2, "the learner itself plays the first step alone")
	for i, e := range j.steps() {
		off := e.Metrics["rollout_corr/rollout_is_max"] - 1 // float32 rounds what was sampled
		require.Equal(t, i > 0, off > 1e-3, "step %d: %v", e.Step, off)
	}

	c.Run.Async = false
	sync := guesser()
	k := run(t, c, sync)
	require.Empty(t, sync.lent)
	require.Equal(t, untimed(k)[0], untimed(j)[0], "the first step is the same")
	require.NotEqual(t, untimed(k)[1], untimed(j)[1])
	require.Equal(t, sync.updates[:perStep], b.updates[:perStep])
	for _, u := range b.updates[perStep:] {
		require.NotNil(t, u.batch.RolloutWeight)
	}
}

// TestCollectingAheadRepeatsItself: neither workers nor processors change a bit of
// it, with any harness.
func TestCollectingAheadRepeatsItself(t *testing.T) {
	for _, harness := range []string{"concat", "no_concat", "window", "compact"} {
		play := func(workers int) ([]map[string]uint64, []update) {
			c := ahead(split(harness))
			c.Run.Workers, c.Trainer.Steps = workers, 3
			b := guesser()
			j := run(t, c, b)
			return untimed(j), b.updates
		}
		metrics, updates := play(1)
		require.NotEqual(t, updates[0].batch.OldLogProbs, updates[len(updates)-1].batch.OldLogProbs, "it learns")
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

// TestARunThatCollectsAheadGoesOnFromEveryCheckpoint: the episodes of the coming
// step are part of a checkpoint, so that it goes on as if it had not stopped. The
// greedy episodes of ReMax are, too.
func TestARunThatCollectsAheadGoesOnFromEveryCheckpoint(t *testing.T) {
	remax := brisk()
	remax.Algorithm.Estimator = "remax"
	for name, c := range map[string]vagen.Config{"bi_level_gae": ahead(brisk()), "remax": ahead(remax)} {
		whole := filepath.Join(t.TempDir(), "whole")
		require.NoError(t, goOn(t.Context(), whole, c, nil))
		want := outcome(t, whole)
		for stop := 1; stop <= 9; stop++ {
			dir := filepath.Join(t.TempDir(), "run")
			events := 0
			require.ErrorIs(t, goOn(t.Context(), dir, c, func(tr *vagen.Trainer) {
				tr.Sinks = append(tr.Sinks, vagen.SinkFunc(func(vagen.Event) error {
					if events++; events == stop {
						return errBroken
					}
					return nil
				}))
			}), errBroken)
			require.NoError(t, goOn(t.Context(), dir, c, nil), "%s: after event %d", name, stop)
			require.Equal(t, want, outcome(t, dir), "%s: after event %d", name, stop)
		}
		held := filepath.Join(whole, "checkpoints", "step_4", "ahead")
		require.FileExists(t, filepath.Join(held, "episodes.parquet"))
		require.NoDirExists(t, filepath.Join(whole, "checkpoints", "step_6", "ahead"), "no step comes after the last one")

		require.NoError(t, os.RemoveAll(held))
		_, err := vagen.OpenCheckpoint(t.Context(), filepath.Dir(held))
		require.ErrorIs(t, err, vagen.ErrTorn)
	}
}

// TestAnInterruptedRunThatCollectsAheadLeavesNoTrace cancels in the middle of an
// update and of what is collected behind it.
func TestAnInterruptedRunThatCollectsAheadLeavesNoTrace(t *testing.T) {
	c := ahead(brisk())
	whole := filepath.Join(t.TempDir(), "whole")
	require.NoError(t, goOn(t.Context(), whole, c, nil))
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
			err := goOn(ctx, dir, c, func(tr *vagen.Trainer) {
				b := tr.Learner.(*bandit)
				switch phase {
				case "collect":
					b.generate = func(ctx context.Context) error { act(); return ctx.Err() }
				case "score":
					b.score = func(ctx context.Context) error { act(); return ctx.Err() }
				case "update":
					b.alter = func(*policy.Batch, *policy.Stats) error { act(); return nil }
				}
			})
			cancel()
			require.ErrorIs(t, err, context.Canceled, "%s %d", phase, call)
			require.NoError(t, goOn(t.Context(), dir, c, nil), "%s %d", phase, call)
			require.Equal(t, want, outcome(t, dir), "%s %d", phase, call)
		}
	}
}

// TestFailuresOfWhatIsCollectedAheadEndTheRun: whatever fails, both sides have
// ended when Run returns.
func TestFailuresOfWhatIsCollectedAheadEndTheRun(t *testing.T) {
	for _, who := range []string{"collect", "learn"} {
		b := guesser()
		tr, j := trainer(t, ahead(small()), b, &arena{})
		calls := 0
		if who == "collect" {
			b.generate = func(context.Context) error {
				if calls++; calls > 2 { // two turns are the first step's
					return errBroken
				}
				return nil
			}
		} else {
			b.alter = func(*policy.Batch, *policy.Stats) error { return errBroken }
		}
		require.ErrorIs(t, tr.Run(t.Context()), errBroken, who)
		require.Equal(t, len(b.lent), b.returned, "what was lent is returned")
		require.Empty(t, j.steps())
	}
}

// unlent hides that the bandit lends its policy.
type unlent struct{ policy.Learner }

func TestWhatContradictsCollectingAheadIsRefused(t *testing.T) {
	tr, _ := trainer(t, ahead(small()), guesser(), &arena{})
	tr.Learner = unlent{tr.Learner}
	err := tr.Run(t.Context())
	require.ErrorIs(t, err, vagen.ErrConfig)
	require.ErrorContains(t, err, "cannot snapshot its policy")

	c := ahead(small())
	c.Agent.Actor.Loss.Mode = "gpg"
	require.NoError(t, c.Validate(), "importance weights make up for it")
	c.Algorithm.Correction.Level = nil
	require.ErrorContains(t, c.Validate(), "run.async")

	s := vagen.State{Step: 3, Ahead: &vagen.Ahead{Step: 3}}
	require.ErrorContains(t, new(vagen.Trainer).Restore(s), "for step 3")
	require.True(t, strings.HasPrefix(fmt.Sprint(new(vagen.Trainer).Restore(s)), "vagen: "))
}

// BenchmarkStep is a step in which both sides have to wait: environments that take
// two milliseconds a turn, and four optimiser steps of two milliseconds. Collecting
// ahead hides the shorter wait behind the longer one.
func BenchmarkStep(b *testing.B) {
	for name, async := range map[string]bool{"in turn": false, "ahead": true} {
		b.Run(name, func(b *testing.B) {
			wait := func() { time.Sleep(2 * time.Millisecond) }
			c := small()
			c.Run.Async, c.Run.Workers, c.Agent.Actor.MiniBatch = async, 8, 2
			c.Trainer.Steps, c.Trainer.Metrics = b.N, []string{"none"}
			g := guesser()
			g.alter = func(*policy.Batch, *policy.Stats) error { wait(); return nil }
			tr, _ := trainer(b, c, g, &arena{fault: func(int64, int) error { wait(); return nil }})
			tr.Sinks = nil
			b.ResetTimer()
			require.NoError(b, tr.Run(b.Context()))
		})
	}
}
