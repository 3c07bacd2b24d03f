package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/builtin"
)

// tiny is a setting that the pure-Go backend completes in seconds.
func tiny() setting {
	s := published()
	s.episodes, s.steps, s.every, s.maps, s.turns = 8, 1, 1, 2, 2
	s.roundTurns, s.rounds, s.requiredRate = 16, 2, 0
	return s
}

func tinyStudy(t *testing.T, out string, say io.Writer) *study {
	envs := builtin.Registry()
	require.NoError(t, envs.Register(worldName, newHintedLake))
	return &study{setting: tiny(), out: out, backend: "go", envs: envs, log: slog.New(slog.DiscardHandler), say: say}
}

// untimed removes the times from results.
func untimed(all []result) []result {
	var out []result
	for _, r := range all {
		r.Seconds, r.Warm = 0, 0
		out = append(out, r)
	}
	return out
}

// TestAStoppedStudyResumes: a study that is stopped and resumed has the results of an
// uninterrupted one, and repeats no finished run.
func TestAStoppedStudyResumes(t *testing.T) {
	whole := tinyStudy(t, t.TempDir(), io.Discard)
	want, excluded, err := whole.run(t.Context(), 2)
	require.NoError(t, errors.Join(err, whole.close()))
	require.Empty(t, excluded)
	require.Len(t, want, 2*len(presets))
	for _, r := range want {
		require.Len(t, r.Points, 2, "one of the warm start and one of training")
	}

	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	stopped := tinyStudy(t, dir, writerFunc(func(line []byte) {
		if bytes.HasPrefix(line, []byte("turn_ppo")) {
			cancel()
		}
	}))
	done, _, err := stopped.run(ctx, 2)
	require.ErrorIs(t, errors.Join(err, stopped.close()), context.Canceled)
	require.Less(t, len(done), len(want))
	first := filepath.Join(dir, "seed0", presets[0], "result.json")
	before, err := os.Stat(first)
	require.NoError(t, err)

	again := tinyStudy(t, dir, io.Discard)
	got, _, err := again.run(t.Context(), 2)
	require.NoError(t, errors.Join(err, again.close()))
	require.Equal(t, untimed(want), untimed(got))
	after, err := os.Stat(first)
	require.NoError(t, err)
	require.Equal(t, before.ModTime(), after.ModTime())

	other := tinyStudy(t, dir, io.Discard)
	other.turns++
	_, _, err = other.run(t.Context(), 2)
	require.ErrorContains(t, errors.Join(err, other.close()), "results of another configuration")
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }

// TestSeedsWithAFailedWarmStartAreExcluded, and are not trained again when the study
// resumes.
func TestSeedsWithAFailedWarmStartAreExcluded(t *testing.T) {
	dir := t.TempDir()
	s := tinyStudy(t, dir, io.Discard)
	s.requiredRate = 2 // cannot be reached
	_, excluded, err := s.run(t.Context(), 1)
	require.ErrorIs(t, errors.Join(err, s.close()), errWarmStart)
	require.Equal(t, []uint64{0, 1}, excluded)
	require.NoError(t, os.Remove(filepath.Join(dir, "seed1", "failed")))

	s = tinyStudy(t, dir, io.Discard)
	all, excluded, err := s.run(t.Context(), 1)
	require.NoError(t, errors.Join(err, s.close()))
	require.Equal(t, []uint64{0}, excluded)
	require.Len(t, all, len(presets))
	require.Equal(t, uint64(1), all[0].Seed)
}

// TestPresetsDifferInNothingElse: configurations of all presets are equal once the keys
// that presets set are made equal.
func TestPresetsDifferInNothingElse(t *testing.T) {
	s := published()
	want, err := s.configure(reference, 3, "auto")
	require.NoError(t, err)
	estimators := map[string]bool{}
	for _, preset := range presets {
		c, err := s.configure(preset, 3, "auto")
		require.NoError(t, err, preset)
		require.Equal(t, s.episodes, c.Data.TrainBatch*c.Rollout.Trajectories, "%s plays the same number of episodes", preset)
		estimators[c.Algorithm.Estimator] = true
		c.Algorithm.Estimator, c.Algorithm.TurnGamma = want.Algorithm.Estimator, want.Algorithm.TurnGamma
		c.Rollout.LossMask, c.Rollout.GAEMask, c.Rollout.MultiTurnReward = true, true, true
		c.Rollout.Trajectories, c.Data.TrainBatch = want.Rollout.Trajectories, want.Data.TrainBatch
		if preset == "masked_grpo" {
			c.Critic = want.Critic
		}
		c.Critic.OnTurnEnds, c.Trainer.Experiment = want.Critic.OnTurnEnds, want.Trainer.Experiment
		require.Equal(t, want, c, preset)
	}
	require.Len(t, estimators, 4, "Vanilla PPO and Turn-PPO use the same estimator")
}

// TestMapsOfASeedAreItsOwn: lessons, their evaluation, training and validation share no map.
func TestMapsOfASeedAreItsOwn(t *testing.T) {
	s := published()
	end := int64(s.maps)
	for seed := range uint64(20) {
		c, err := s.configure(reference, seed, "auto")
		require.NoError(t, err)
		require.GreaterOrEqual(t, c.Env.Seed-int64(s.rounds*s.roundTurns)-int64(s.maps), end)
		end = c.Env.Seed + int64(s.steps*s.episodes)
	}
}

func TestTheWorldStatesAndRewardsProgress(t *testing.T) {
	report, err := env.Check(t.Context(), newHintedLake, env.CheckOptions{Config: world(), Responses: []string{"<answer>Left</answer>", "<answer>Down</answer>", "what?"}})
	require.NoError(t, errors.Join(err, report.Err()))

	config := world()
	config["desc"] = []any{"SFFF", "FHFF", "FFFF", "FFFG"}
	e, err := newHintedLake(config)
	require.NoError(t, err)
	o, err := e.Reset(t.Context(), 1)
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(o.Text, "Turn 1\n to-down to-right free-down free-right"), o.Text)
	out, err := e.Step(t.Context(), "<answer>Right</answer>")
	require.NoError(t, err)
	require.InDelta(t, 0.5, out.Reward.Sum(), 1e-9, "progress; the turn's penalty and the format reward cancel")
	require.True(t, strings.HasSuffix(out.Observation.Text, " to-down to-right free-left free-right"), out.Observation.Text)
	out, err = e.Step(t.Context(), "<answer>Left</answer>")
	require.NoError(t, err)
	require.InDelta(t, -0.5, out.Reward.Sum(), 1e-9)
	out, err = e.Step(t.Context(), "Left")
	require.NoError(t, err)
	require.InDelta(t, -0.1, out.Reward.Sum(), 1e-9, "a response without an action gets only the turn's penalty")
	require.Equal(t, 6, e.(*hintedLake).distance())

	for name, bad := range map[string]map[string]any{"not a number": {partProgress: "much"}, "unknown": {"speed": 1}} {
		_, err := newHintedLake(bad)
		require.ErrorIs(t, err, env.ErrOption, name)
	}
	fresh, err := newHintedLake(nil)
	require.NoError(t, err)
	_, err = fresh.Step(t.Context(), "")
	require.ErrorIs(t, err, env.ErrNotReset)
}

func TestFlagsAreChecked(t *testing.T) {
	for args, want := range map[string]string{"-seeds 1": "-seeds is 1, must be 2 or more", "now": "only flags are allowed", "-seed 3": "not defined: -seed"} {
		var said bytes.Buffer
		_, err := parse(strings.Fields(args), &said)
		require.Error(t, err)
		require.Contains(t, said.String(), want)
	}
	o, err := parse(nil, io.Discard)
	require.NoError(t, err)
	require.Equal(t, options{5, filepath.Join("runs", "ablation"), filepath.Join("docs", "ablation.md"), "auto", ""}, o)
}
