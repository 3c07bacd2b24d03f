package run_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/train"
	"vagen/train/config"
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

// TestTheFirstStepsPolicyIsTheCurrentOne: the first step of a run that collects ahead is that of one that
// does not; the later ones have importance weights.
func TestTheFirstStepsPolicyIsTheCurrentOne(t *testing.T) {
	c := ahead(traintest.Small())
	b, sync := traintest.Guesser(), traintest.Guesser()
	j := traintest.Run(t, c, b)
	c.Run.Async = false
	k := traintest.Run(t, c, sync)
	require.Empty(t, sync.SnapshotsAt)
	first := traintest.Untimed(j)[0]
	delete(first, "rollout/staleness_mean")
	delete(first, "rollout/staleness_max")
	require.Equal(t, traintest.Untimed(k)[0], first)
	require.NotEqual(t, traintest.Untimed(k)[1], traintest.Untimed(j)[1])
	perStep := len(b.Updates) / c.Trainer.Steps
	require.Equal(t, sync.Updates[:perStep], b.Updates[:perStep])
	for _, u := range b.Updates[perStep:] {
		require.NotNil(t, u.Batch.RolloutWeight)
	}
}

// requireResumesAfterEveryEvent stops a run at each of its events and resumes it, which must give
// the outcome of an uninterrupted run, whose folder and events are returned. arrange changes every trainer.
func requireResumesAfterEveryEvent(
	t *testing.T, about string, c config.Config, arrange func(*train.Trainer),
) (whole string, events *traintest.Journal) {
	t.Helper()
	play := func(dir string, sinks ...track.Sink) error {
		return trainIn(t.Context(), dir, c, func(tr *train.Trainer) {
			arrange(tr)
			tr.Sinks = append(tr.Sinks, sinks...)
		})
	}
	whole, events = filepath.Join(t.TempDir(), "whole"), new(traintest.Journal)
	require.NoError(t, play(whole, events))
	want := traintest.Files(t, whole)
	for stop := range len(*events) {
		dir := filepath.Join(t.TempDir(), "run")
		require.ErrorIs(t, play(dir, brokenAfter(stop)), traintest.ErrBroken)
		require.NoError(t, play(dir), "%s: after event %d", about, stop)
		require.Equal(t, want, traintest.Files(t, dir), "%s: after event %d", about, stop)
	}
	return whole, events
}

// asItIs changes nothing.
func asItIs(*train.Trainer) {}

// brokenAfter is a sink that fails after some events.
func brokenAfter(events int) track.Sink {
	at := 0
	return track.SinkFunc(func(track.Event) error {
		if at++; at > events {
			return traintest.ErrBroken
		}
		return nil
	})
}

// noSnapshots hides the bandit's policy.PolicySnapshotter.
type noSnapshots struct{ policy.Learner }

func TestWhatContradictsOldEpisodesIsRefused(t *testing.T) {
	require.Equal(t, 1, config.Default().Run.MaxStaleness)
	c := traintest.Small()
	require.NoError(t, c.Validate(), "the default means nothing without run.async: %s", fmt.Sprint(c.Run.MaxStaleness))

	c = ahead(c)
	c.Agent.Actor.Loss.Mode = "gpg"
	require.NoError(t, c.Validate(), "importance weights correct for it")
	c.Algorithm.Correction.Level = nil
	require.ErrorContains(t, c.Validate(), "run.async")

	tr, _ := traintest.Trainer(t, ahead(traintest.Small()), traintest.Guesser(), &traintest.Arena{})
	tr.Learner = noSnapshots{tr.Learner}
	err := tr.Run(t.Context())
	testkit.Error(t, err, config.ErrConfig, "does not implement policy.PolicySnapshotter")
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
				tr, _ := traintest.Trainer(b, c, g, &traintest.Arena{Fault: func(int64, int) error {
					time.Sleep(turn * time.Millisecond)
					return nil
				}})
				tr.Sinks = nil
				b.ResetTimer()
				require.NoError(b, tr.Run(b.Context()))
			})
		}
	}
}
