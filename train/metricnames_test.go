package train_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
	"vagen/internal/testkit"
	"vagen/internal/traintest"
	"vagen/train/config"
	"vagen/train/track"
)

// documented returns the names in the tables of docs/results.md, as patterns.
func documented(t *testing.T) map[string]*regexp.Regexp {
	t.Helper()
	_, rest, ok := strings.Cut(testkit.Text(t, "../docs/results.md"), "## Names of metrics")
	require.True(t, ok)
	rest, _, _ = strings.Cut(rest, "\n## ")
	out := map[string]*regexp.Regexp{}
	for _, line := range strings.Split(rest, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		for _, quoted := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1], -1) {
			for _, name := range expand(quoted[1]) {
				pattern := regexp.MustCompile(`<[^>]*>`).ReplaceAllString(regexp.QuoteMeta(name), `[^/]+`)
				out[name] = regexp.MustCompile("^" + pattern + "$")
			}
		}
	}
	return out
}

// expand expands {a,b}.
func expand(name string) []string {
	before, rest, ok := strings.Cut(name, "{")
	if !ok {
		return []string{name}
	}
	inside, after, _ := strings.Cut(rest, "}")
	var out []string
	for _, one := range strings.Split(inside, ",") {
		out = append(out, expand(before+one+after)...)
	}
	return out
}

// TestTheTableOfMetricsIsThatOfTheCode: docs/results.md lists the metrics that several kinds of
// runs log, and no others.
func TestTheTableOfMetricsIsThatOfTheCode(t *testing.T) {
	all := map[string]bool{}
	for _, c := range dashboards(t) {
		for _, e := range traintest.Run(t, c, traintest.Guesser()) {
			for name := range e.Metrics {
				all[name] = true
			}
		}
	}
	table := documented(t)
	for name := range all {
		_, ok := track.MetricOf(name)
		require.True(t, ok, "%s is not in the table of package track", name)
	}
	for name := range table {
		_, ok := track.MetricOf(name)
		require.True(t, ok, "%s is not in the table of package track", name)
	}
	names := slices.Sorted(maps.Keys(all))
	for _, name := range names {
		require.True(t, slices.ContainsFunc(slices.Collect(maps.Values(table)), func(p *regexp.Regexp) bool {
			return p.MatchString(name)
		}), "%s is not in the table", name)
	}
	var missing []string
	for row, p := range table {
		if !slices.ContainsFunc(names, p.MatchString) {
			missing = append(missing, row)
		}
	}
	require.ElementsMatch(t, golden.Table[[]string](t, "unmet.yaml"), missing)
}

// dashboards are configurations that together log every metric possible without a model.
func dashboards(t *testing.T) []config.Config {
	t.Helper()
	critic := traintest.Small()
	critic.Trainer.TestFreq, critic.Agent.Rollout.Val.Episodes = 1, 4
	critic.Agent.Actor.ClipDual, critic.Agent.Actor.UseKLLoss = 3, true
	two, token := 2, "token"
	critic.Critic.Epochs = &two
	charged := traintest.Grouped()
	charged.Algorithm.KLInReward, charged.Filter.Enable, charged.Reward.Normalize = true, true, "batch"
	charged.Algorithm.Correction.Level, charged.Run.Async = &token, true
	charged.Data.Pools.Gate = config.GateAdvantageRange
	return []config.Config{critic, charged, sources(t)}
}

// sources is a configuration with validation on two data sources of one environment.
func sources(t *testing.T) config.Config {
	t.Helper()
	c := traintest.Small()
	c.Env.Name, c.Env.Config = "", nil
	c.Data.TrainFiles = []string{traintest.WriteFile(t, `envs:
  - {name: guess, n_envs: 12, seed: [1, 100, 1], data_source: a, config: {turns: 2}}
  - {name: guess, n_envs: 12, seed: [100, 199, 1], config: {turns: 2}}`)}
	c.Data.Pools.Share = 0.5
	c.Data.ValFiles = []string{traintest.WriteFile(t, `envs:
  - {name: guess, n_envs: 3, seed: [200, 300, 1], data_source: short, config: {turns: 1}}
  - {name: guess, n_envs: 2, seed: [400, 500, 1], data_source: long, config: {turns: 3}}`)}
	c.Trainer.TestFreq, c.Trainer.Steps, c.Data.TrainBatch = 3, 6, 8
	c.Rollout.MaxTurns = 3
	return c
}

// TestValidationIsReportedForEachDataSource in separate metrics, which are consistent with those
// over all episodes.
func TestValidationIsReportedForEachDataSource(t *testing.T) {
	for _, e := range traintest.Run(t, sources(t), traintest.Guesser()) {
		m := e.Metrics
		if e.Kind != "validate" {
			require.Equal(t, float64(e.Step), m["training/global_step"])
			require.Equal(t, float64((e.Step-1)/3), m["training/epoch"], "24 episodes are 3 steps")
			continue
		}
		short, long := m["val-core/short/reward/mean@1"], m["val-core/long/reward/mean@1"]
		require.InDelta(t, m["val/score"], (3*short+2*long)/5, 1e-12)
		require.Equal(t, short, m["val/by_source/short/score"])
		require.Equal(t, 1.0, m["val/by_source/short/turns"])
		require.Equal(t, 3.0, m["val/by_source/long/turns"])
		require.Equal(t, []float64{1, 3, 9.0 / 5}, []float64{m["val-aux/num_turns/min"], m["val-aux/num_turns/max"],
			m["val-aux/num_turns/mean"]})
		require.InDelta(t, m["val/success"],
			(3*m["val-aux/short/traj_success/mean@1"]+2*m["val-aux/long/traj_success/mean@1"])/5, 1e-12)
		// Three episodes of one turn, and two of three.
		require.InDelta(t, m["val/format_correct"], (3*m["val-aux/short/format_correct_rate/mean@1"]+
			6*m["val-aux/long/format_correct_rate/mean@1"])/9, 1e-12)
		require.InDelta(t, m["val/response_tokens"], 3*m["val-aux/short/model_tokens_per_turn/mean@1"]+
			6*m["val-aux/long/model_tokens_per_turn/mean@1"], 1e-9)
		require.NotContains(t, m, "val-aux/short/observation_reward/mean@1")
	}
}

// TestFamiliarNamesAgreeWithOurs: metrics under a second name have the same value, and
// MachineMetric recognises those that depend on the machine.
func TestFamiliarNamesAgreeWithOurs(t *testing.T) {
	c := traintest.Small()
	c.Trainer.TestFreq = 1
	for _, e := range traintest.Run(t, c, traintest.Guesser()) {
		m := e.Metrics
		if e.Kind == "validate" {
			require.Equal(t, m["time/validate"], m["timing_s/testing"])
			continue
		}
		require.Equal(t, m["train/success"], m["custom_metrics/train/traj_success"])
		require.InDelta(t, m["train/score"], m["custom_metrics/train/episode_score/mean"], 1e-12)
		require.Equal(t, m["train/turns"], m["num_turns/mean"])
		require.Equal(t, m["response_length/truncated"], m["response_length/clip_ratio"])
		require.Equal(t, 0.5, m["critic/lr"])
		require.Equal(t, m["time/step"], m["timing_s/step"])
		require.Equal(t, m["train/response_tokens"]+m["train/context_tokens"], m["perf/total_num_tokens"])
		require.InDelta(t, m["perf/total_num_tokens"]/m["time/step"], m["perf/throughput"], 1e-9)
	}
	for _, name := range []string{"timing_s/gen", "timing_per_token_ms/gen", "perf/throughput", "time/step"} {
		require.True(t, track.MachineMetric(name), name)
	}
	require.False(t, track.MachineMetric("training/epoch"))
}

// TestEveryNameOfTrainerMetricsIsMeasured: one that adds no number to a step would be a setting without effect.
func TestEveryNameOfTrainerMetricsIsMeasured(t *testing.T) {
	measured := func(name string) int {
		c := traintest.Small()
		c.Trainer.Steps, c.Trainer.Metrics = 1, []string{name}
		events := traintest.Run(t, c, traintest.Guesser())
		return len(events[len(events)-1].Metrics)
	}
	none := measured("none")
	for _, name := range (config.Registries{}).WithBuiltins().Metrics.Names() {
		require.Greater(t, measured(name), none, name)
	}
}
