package traintest

import (
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/train"
	"vagen/train/config"
	"vagen/train/track"
)

var (
	_ policy.Learner = (*Bandit)(nil)
	_ policy.Encoder = (*Bandit)(nil)
	_ track.Sink     = (*Journal)(nil)
)

// Lake is a configuration of FrozenLake in small pictures with brief prompts.
func Lake() map[string]any {
	return map[string]any{
		"render_mode": "vision", "tile_size": 14, "prompt": "brief", "prompt_format": "answer", "max_actions_per_step": 1,
		"turn_cost": 0.1,
	}
}

// Small is a configuration for the guessing game that trains quickly.
func Small() config.Config {
	c := config.Default()
	c.Run.Seed = 5
	c.Env.Name, c.Env.Config = "guess", map[string]any{"turns": uint64(2)}
	c.Algorithm.Estimator, c.Algorithm.TurnGamma, c.Algorithm.Lambda = "bi_level_gae", 0.9, 0.95
	c.Data.TrainBatch, c.Data.ValBatch, c.Data.MaxResponse = 8, 6, 4
	c.Agent.Actor.MiniBatch, c.Agent.Actor.Optim.Rate, c.Agent.Actor.Entropy = 4, 2, 0
	c.Critic.Optim.Rate, c.Critic.ValueClip = 0.5, 0
	c.Trainer.Steps, c.Trainer.TestFreq, c.Trainer.ValBefore = 3, 0, false
	return c
}

// Set sets keys of a configuration: assignments key=value, separated by blanks.
func Set(t testing.TB, c *config.Config, assignments string) {
	t.Helper()
	for _, a := range strings.Fields(assignments) {
		require.NoError(t, c.Override(a))
	}
}

// Journal is a sink that stores events.
type Journal []track.Event

func (j *Journal) Event(e track.Event) error { *j = append(*j, e); return nil }
func (j *Journal) Close() error              { return nil }

// Kinds returns events as texts "kind step".
func (j Journal) Kinds() []string {
	var out []string
	for _, e := range j {
		out = append(out, fmt.Sprint(e.Kind, " ", e.Step))
	}
	return out
}

// Trainer returns a trainer with a learner, an arena and a journal. An arena that is nil has no faults.
func Trainer(t testing.TB, c config.Config, b *Bandit, a *Arena) (*train.Trainer, *Journal) {
	t.Helper()
	if a == nil {
		a = &Arena{}
	}
	j := new(Journal)
	return &train.Trainer{Config: c, Learner: b, Envs: a.Registry(t), Sinks: []track.Sink{j}}, j
}

// Logged returns what a trainer will log.
func Logged(tr *train.Trainer) *strings.Builder {
	log := new(strings.Builder)
	tr.Log = slog.New(slog.NewTextHandler(log, nil))
	return log
}

// Run trains and returns the recorded events.
func Run(t testing.TB, c config.Config, b *Bandit) Journal {
	t.Helper()
	tr, j := Trainer(t, c, b, nil)
	require.NoError(t, tr.Run(t.Context()))
	require.Empty(t, b.Opened, "all conversations are closed")
	return *j
}

// Split is a configuration in which episodes have three turns and several rows.
func Split(harness string) config.Config {
	c := Grouped()
	c.Env.Config = map[string]any{"turns": uint64(3)}
	c.Rollout.MaxTurns, c.Trainer.Harness, c.Trainer.CompactBudget = 3, harness, 12
	c.Trainer.CompactSummary = 2
	c.Algorithm.Estimator = "token_level_gae"
	if harness == "window" {
		one := 1
		c.Rollout.WindowSize = &one
	}
	return c
}

// Has reports whether a metric was measured.
func Has(m track.Metrics, name string) bool {
	_, ok := m[name]
	return ok
}

// Whole is a configuration whose steps are one optimiser step on all episodes. Returns can
// be computed by hand: there is no discount, and values are 0.
func Whole() config.Config {
	c := Small()
	c.Algorithm.Estimator, c.Algorithm.Gamma, c.Algorithm.Lambda = "masked_gae", 1, 1
	c.Agent.Actor.MiniBatch, c.Trainer.Steps = c.Data.TrainBatch, 1
	return c
}

// Untimed returns the metrics that must depend only on the configuration.
func Untimed(j Journal) []map[string]uint64 {
	var out []map[string]uint64
	for _, e := range j {
		bits := map[string]uint64{}
		for name, x := range e.Metrics {
			if !track.MachineMetric(name) {
				bits[name] = math.Float64bits(x)
			}
		}
		out = append(out, bits)
	}
	return out
}

// Steps returns the events of training steps.
func (j Journal) Steps() []track.Event {
	var out []track.Event
	for _, e := range j {
		if e.Kind == "step" {
			out = append(out, e)
		}
	}
	return out
}

// Grouped is Whole with three episodes per start state.
func Grouped() config.Config {
	c := Whole()
	c.Rollout.Trajectories, c.Agent.Actor.MiniBatch = 3, 24
	return c
}
