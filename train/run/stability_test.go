package run_test

import (
	"bytes"
	"log/slog"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/policy/loss"
	"vagen/train"
	"vagen/train/config"
)

// spiky watches the gradient of eight steps, with checkpoints after every second.
func spiky() config.Config {
	c := thrifty()
	c.Trainer.Steps = 8
	c.Stability.Spike = config.SpikeConfig{Metric: "actor/grad_norm", Window: 4, Deviations: 20, Action: "rollback",
		MaxRollbacks: 2}
	return c
}

// seedsOf collects the seeds of a run's optimiser steps, by training step.
func seedsOf(t *testing.T, c config.Config) map[int]uint64 {
	seeds := map[int]uint64{}
	require.NoError(t, trainIn(t.Context(), filepath.Join(t.TempDir(), "run"), c, func(tr *train.Trainer) {
		tr.Learner.(*traintest.Bandit).Alter = func(b *policy.Batch, _ *policy.Stats) error {
			seeds[tr.Done()+1] = b.Seed
			return nil
		}
	}))
	return seeds
}

// TestASpikeIsUndoneAndNotPlayedAgain: a run whose sixth step spikes goes back to the
// checkpoint of the fourth and continues with other seeds from there. Its metrics have each
// step once, and a run that is stopped anywhere and resumed gives the same result.
func TestASpikeIsUndoneAndNotPlayedAgain(t *testing.T) {
	t.Parallel()
	bad := seedsOf(t, spiky())[6]
	spike := func(tr *train.Trainer) {
		tr.Learner.(*traintest.Bandit).Alter = func(b *policy.Batch, s *policy.Stats) error {
			if b.Seed == bad {
				s.GradNorm = math.Inf(1)
			}
			return nil
		}
	}
	whole, j := requireResumesAfterEveryEvent(t, "spikes", spiky(), spike)
	require.Contains(t, strings.Join(j.Kinds(), ","),
		"save 4,step 5,step 6,rollback 4,step 5,step 6,validate 6,save 6,step 7")
	want := traintest.Files(t, whole)
	lines := want["metrics.jsonl"]
	require.Equal(t, 1, strings.Count(lines, `"kind":"step","step":5,`))
	require.Equal(t, 4, strings.Count(lines, `"train/rollbacks":1`), "steps 5 to 8 show it")
	require.NotContains(t, lines, `"kind":"rollback"`)

	calm := filepath.Join(t.TempDir(), "calm")
	require.NoError(t, trainIn(t.Context(), calm, spiky(), nil))
	require.NotEqual(t, traintest.Files(t, calm)["checkpoints/step_6/table.json"], want["checkpoints/step_6/table.json"],
		"another way")
}

func TestSpikesThatDoNotGoAwayStopTheRun(t *testing.T) {
	always := func(tr *train.Trainer) {
		tr.Learner.(*traintest.Bandit).Alter = func(_ *policy.Batch, s *policy.Stats) error {
			if tr.Done() == 5 {
				s.GradNorm = 1e9
			}
			return nil
		}
	}
	err := trainIn(t.Context(), filepath.Join(t.TempDir(), "run"), spiky(), always)
	testkit.Error(t, err, train.ErrDiverged, "at step 6, after 2 rollbacks")

	c := spiky()
	c.Stability.Spike.Action = "stop"
	err = trainIn(t.Context(), filepath.Join(t.TempDir(), "run"), c, always)
	testkit.Error(t, err, train.ErrDiverged, "the newest checkpoint is of step 4")

	c.Stability.Spike.Action = "warn"
	var log bytes.Buffer
	require.NoError(t, trainIn(t.Context(), filepath.Join(t.TempDir(), "run"), c, func(tr *train.Trainer) {
		always(tr)
		tr.Log = slog.New(slog.NewTextHandler(&log, nil))
	}))
	require.Equal(t, 1, strings.Count(log.String(), "msg=\"metric spike\""))
}

// TestARunThatGetsNoBetterStopsAndSaves, wherever it was stopped before.
func TestARunThatGetsNoBetterStopsAndSaves(t *testing.T) {
	t.Parallel()
	c := thrifty()
	c.Trainer.TestFreq, c.Agent.Actor.Optim.Rate = 1, 0
	c.Stability.Early = config.EarlyConfig{Metric: "val/score", Patience: 3}
	whole, j := requireResumesAfterEveryEvent(t, "early", c, asItIs)
	require.Equal(t, "step 3,validate 3,save 3", strings.Join(j.Kinds()[len(j.Kinds())-3:], ","), "nothing is learned")
	want := traintest.Files(t, whole)
	require.NoError(t, trainIn(t.Context(), whole, c, nil), "it does not train further")
	require.Equal(t, want, traintest.Files(t, whole))
	c.Stability.Early.Metric = "-val/turns" // which never falls
	require.NoError(t, trainIn(t.Context(), filepath.Join(t.TempDir(), "run"), c, nil))
}

func TestAlarmsRingWhenAPolicyCollapses(t *testing.T) {
	x := func(x float64) *float64 { return &x }
	for metric, set := range map[string]func(*config.AlarmConfig){
		"actor/entropy":        func(a *config.AlarmConfig) { a.MinEntropy = x(1e6) },
		"train/format_correct": func(a *config.AlarmConfig) { a.MinFormat = x(1) },
		"template/repeated":    func(a *config.AlarmConfig) { a.MaxRepeated = x(0) },
	} {
		c := traintest.Small()
		c.Trainer.Steps, c.Trainer.Metrics = 4, []string{"all"}
		c.Stability.Alarms = config.AlarmConfig{Action: "stop", Patience: 2}
		set(&c.Stability.Alarms)
		tr, j := traintest.Trainer(t, c, traintest.Guesser(), nil)
		err := tr.Run(t.Context())
		testkit.Error(t, err, train.ErrCollapsed, metric)
		require.Equal(t, []string{"step 1", "step 2"}, j.Kinds(), metric)

		var log bytes.Buffer
		c.Stability.Alarms.Action = "warn"
		tr, _ = traintest.Trainer(t, c, traintest.Guesser(), nil)
		tr.Log = slog.New(slog.NewTextHandler(&log, nil))
		require.NoError(t, tr.Run(t.Context()))
		require.Equal(t, 1, strings.Count(log.String(), "may be collapsing"), "%s: when it turns on", metric)
	}
}

// TestBoundsAndPenaltiesFollowTheirSchedules reads the objectives that the learner got.
func TestBoundsAndPenaltiesFollowTheirSchedules(t *testing.T) {
	c := traintest.Small()
	c.Trainer.Steps, c.Agent.Actor.MiniBatch = 5, 8
	c.Agent.Actor.UseKLLoss, c.Agent.Actor.KLLoss = true, 0.5
	c.Stability.Clip = config.ScheduleConfig{Style: "linear", End: 0.5}
	c.Stability.KL = config.ScheduleConfig{Style: "cosine", End: 2}
	b := traintest.Guesser()
	traintest.Run(t, c, b)
	var clips, coefs []float64
	for _, u := range b.Updates {
		clips, coefs = append(clips, u.Objective.Policy.(loss.PPO).High), append(coefs, u.Objective.KLCoef)
	}
	require.InDeltaSlice(t, []float64{0.2, 0.175, 0.15, 0.125, 0.1}, clips, 1e-12)
	half := math.Sqrt(0.5) / 2
	require.InDeltaSlice(t, []float64{0.5, 0.5 * (1.5 - half), 0.75, 0.5 * (1.5 + half), 1}, coefs, 1e-12)

	c.Agent.Actor.UseKLLoss, c.Algorithm.KLInReward = false, true
	c.Algorithm.KLCtrl.Coef = 0.5
	coefs = nil
	for _, e := range traintest.Run(t, c, traintest.Guesser()).Steps() {
		coefs = append(coefs, e.Metrics["actor/reward_kl_penalty_coeff"])
	}
	require.InDeltaSlice(t, []float64{0.5, 0.5 * (1.5 - half), 0.75, 0.5 * (1.5 + half), 1}, coefs, 1e-12)
}
