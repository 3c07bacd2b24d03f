package run_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/train"
	"vagen/train/config"
)

// logged runs a trainer and returns its log and its steps.
func logged(t *testing.T, tr *train.Trainer, j *traintest.Journal) (string, traintest.Journal) {
	t.Helper()
	log := traintest.Logged(tr)
	require.NoError(t, tr.Run(t.Context()))
	return log.String(), j.Steps()
}

// policyMetrics are those of an update of the policy.
var policyMetrics = []string{"actor/pg_loss", "actor/entropy", "actor/ppo_kl", "actor/pg_clipfrac", "actor/grad_norm",
	"actor/ratio_max", "actor/kl_loss", "actor/lr"}

// TestCriticWarmUpMeasuresNoPolicy: its steps have no metric of the policy's update,
// so neither alarms nor the spike detector act on one, during the warm-up or after.
func TestCriticWarmUpMeasuresNoPolicy(t *testing.T) {
	c := traintest.Small()
	c.Trainer.CriticWarmup, c.Trainer.Steps, c.Agent.Actor.UseKLLoss = 4, 8, true
	low := 1e-9
	c.Stability.Alarms = config.AlarmConfig{Action: "stop", Patience: 1, MinEntropy: &low}
	c.Stability.Spike = config.SpikeConfig{Metric: "actor/grad_norm", Window: 4, Deviations: 20, Action: "stop"}
	tr, j := traintest.Trainer(t, c, traintest.Guesser(), nil)
	log, steps := logged(t, tr, j)
	require.Len(t, steps, 8)
	for i, e := range steps {
		for _, name := range policyMetrics {
			require.Equal(t, i >= 3, traintest.Has(e.Metrics, name), "%s at step %d", name, i+1)
		}
		require.Contains(t, e.Metrics, "critic/vf_loss")
	}
	require.NotContains(t, log, "metric not found")

	c.Stability.Spike.Metric = "actor/grad_nrom"
	tr, j = traintest.Trainer(t, c, traintest.Guesser(), nil)
	log, _ = logged(t, tr, j)
	require.Equal(t, 1, strings.Count(log, "metric not found"), "a name that no step has is reported once")
}

// TestOptimiserStepsWithoutATokenDoNotDiluteAverages: a figure is the average over the
// steps that measured it.
func TestOptimiserStepsWithoutATokenDoNotDiluteAverages(t *testing.T) {
	c := traintest.Small() // two optimiser steps a step
	c.Trainer.Steps = 1
	b := traintest.Guesser()
	b.Alter = func(batch *policy.Batch, s *policy.Stats) error {
		s.PolicyLoss, s.GradNorm, s.Skipped = 3, 5, true
		if len(b.Updates) == 2 {
			s.PolicyLoss, s.GradNorm = 0, 0
		}
		return nil
	}
	tr, j := traintest.Trainer(t, c, b, nil)
	tr.Learner = weightless{b}
	_, steps := logged(t, tr, j)
	require.Len(t, b.Updates, 2)
	require.InDelta(t, 3, steps[0].Metrics["actor/pg_loss"], 1e-12)
	require.InDelta(t, 5, steps[0].Metrics["actor/grad_norm"], 1e-12)
}

// weightless is a bandit whose second update finds no token with a loss.
type weightless struct{ *traintest.Bandit }

func (w weightless) Update(
	ctx context.Context, b *policy.Batch, o policy.Objective, opt policy.Optimizer,
) (policy.Stats, error) {
	if len(w.Updates) == 1 {
		clear(b.Weight)
	}
	return w.Bandit.Update(ctx, b, o, opt)
}

// TestNaNDuringCriticWarmUpIsASpike of the critic's loss and of its gradient.
func TestNaNDuringCriticWarmUpIsASpike(t *testing.T) {
	for metric, set := range map[string]func(*policy.Stats){
		"critic/vf_loss":   func(s *policy.Stats) { s.ValueLoss = math.NaN() },
		"critic/grad_norm": func(s *policy.Stats) { s.CriticNorm = math.NaN() },
	} {
		c := traintest.Small()
		c.Trainer.CriticWarmup = 3
		c.Stability.Spike = config.SpikeConfig{Metric: metric, Window: 4, Deviations: 20, Action: "stop"}
		b := traintest.Guesser()
		tr, _ := traintest.Trainer(t, c, b, nil)
		b.Alter = func(_ *policy.Batch, s *policy.Stats) error {
			if tr.Done() == 1 {
				set(s)
			}
			return nil
		}
		err := tr.Run(t.Context())
		testkit.Error(t, err, train.ErrDiverged, metric+" is NaN at step 2")
	}
}

// babbler writes malformed responses that are cut off by the limit, in steps chosen by on.
type babbler struct {
	*traintest.Bandit
	on func() bool
}

func (b babbler) Generate(
	ctx context.Context, prompts []policy.Prompt, s policy.Sampling,
) ([]policy.Completion, error) {
	out, err := b.Bandit.Generate(ctx, prompts, s)
	for i := range out {
		if b.on() {
			out[i].Text, out[i].Stop = "and so on and so", policy.StopLength
		}
	}
	return out, err
}

// babble is a run with the default alarms that babbles in some of its steps.
func babble(t *testing.T, steps, from, to int) (*train.Trainer, *traintest.Journal) {
	c := traintest.Small()
	c.Trainer.Steps, c.Agent.Actor.Optim.Rate = steps, 0.01
	b := traintest.Guesser()
	tr, j := traintest.Trainer(t, c, b, nil)
	tr.Learner = babbler{b, func() bool { at := tr.Done() + 1; return from <= at && at <= to }}
	return tr, j
}

// TestAnAlarmIsLoggedWhenItTurnsOnAndOff, however long it lasts.
func TestAnAlarmIsLoggedWhenItTurnsOnAndOff(t *testing.T) {
	tr, j := babble(t, 14, 3, 12)
	log, steps := logged(t, tr, j)
	require.Equal(t, 2, strings.Count(log, "stability.alarms.min_format"))
	var lines []string
	for line := range strings.Lines(log) {
		if strings.Contains(line, "max_truncated") {
			lines = append(lines, line)
		}
	}
	require.Len(t, lines, 2)
	require.Regexp(t, `level=WARN .*step=5 metric=train/truncated value=1 stability.alarms.max_truncated=0.9`, lines[0])
	require.Regexp(t, `level=INFO msg="alarm off" step=13 .*steps=10`, lines[1])
	for i, e := range steps {
		for _, key := range []string{"alarm/max_truncated", "alarm/min_format"} {
			require.Equal(t, 4 <= i && i < 12, traintest.Has(e.Metrics, key), "%s: step %d", key, i+1)
		}
	}
	require.InDelta(t, 3, steps[4].Metrics["alarm/min_format"], 0, "steps that it is on")
	tr, j = babble(t, 6, 3, 4)
	log, _ = logged(t, tr, j)
	require.NotContains(t, log, "alarm", "two steps are not enough")
}

// TestDefaultAlarmsAreSilentInAHealthyRun of a policy that learns to walk.
func TestDefaultAlarmsAreSilentInAHealthyRun(t *testing.T) {
	c := traintest.Small()
	c.Env.Name, c.Env.Config = "frozenlake", nil
	c.Trainer.Steps, c.Rollout.Trajectories, c.Data.TrainBatch, c.Agent.Actor.Optim.Rate = 6, 4, 8, 0.1
	tr, j := traintest.Trainer(t, c, traintest.Walker(), nil)
	log, steps := logged(t, tr, j)
	require.Len(t, steps, 6)
	require.NotContains(t, log, "alarm")
}

// TestEveryDefaultAlarmTurnsOn beyond its limit and not at it.
func TestEveryDefaultAlarmTurnsOn(t *testing.T) {
	for name, set := range map[string]func(s *policy.Stats, beyond bool){
		"min_entropy": func(s *policy.Stats, beyond bool) { s.Entropy = pick(beyond, 0.009, 0.01) },
		"max_kl":      func(s *policy.Stats, beyond bool) { s.ApproxKL = pick(beyond, -0.6, -0.5) },
		"max_ratio":   func(s *policy.Stats, beyond bool) { s.RatioMax = pick(beyond, math.Inf(1), 1e6) },
	} {
		for _, beyond := range []bool{true, false} {
			c := traintest.Small()
			b := traintest.Guesser()
			b.Alter = func(_ *policy.Batch, s *policy.Stats) error {
				*s = policy.Stats{Entropy: 1, HasEntropy: true, RatioMax: 1, Tokens: 1, Skipped: true}
				set(s, beyond)
				return nil
			}
			c.Trainer.MaxSkipped = 100
			tr, j := traintest.Trainer(t, c, b, nil)
			_, steps := logged(t, tr, j)
			require.Equal(t, beyond, traintest.Has(steps[2].Metrics, "alarm/"+name), "%s %v", name, beyond)
		}
	}
	// All groups earn the same; groups of one cannot be compared.
	for _, n := range []int{1, 2} {
		c := traintest.Small()
		c.Rollout.Trajectories = n
		tr, j := traintest.Trainer(t, c, traintest.NewBandit("x y"), nil)
		_, steps := logged(t, tr, j)
		require.Equal(t, n == 2, traintest.Has(steps[2].Metrics, "alarm/max_equal_groups"))
	}
}

func pick(first bool, a, b float64) float64 {
	if first {
		return a
	}
	return b
}

// TestAlarmsKeepTheirCountsWhenARunIsResumed: a run that is stopped anywhere and resumed
// has the alarms of an uninterrupted one.
func TestAlarmsKeepTheirCountsWhenARunIsResumed(t *testing.T) {
	t.Parallel()
	c := thrifty()
	c.Trainer.Steps = 6
	high := 1e6
	c.Stability.Alarms.MinEntropy = &high
	whole, _ := requireResumesAfterEveryEvent(t, "alarms", c, asItIs)
	require.Contains(t, traintest.Files(t, whole)["metrics.jsonl"], `"alarm/min_entropy":6`)
}
