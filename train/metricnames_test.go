package train_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/traintest"
	"vagen/train/config"
	"vagen/train/track"
)

// unmet are metrics that need a model of package policy/vlm, servers, a judge, more steps, a failure, or another harness than
// the runs of TestTheTableOfMetricsIsThatOfTheCode. They are tested elsewhere.
var unmet = []string{
	"train/rows", "train/retried", "train/observations_cut", "train/summaries", "train/forced_tokens",
	"val/rows", "val/retried", "val/observations_cut", "val/summaries", "val/forced_tokens",
	"train/played", "train/played_unusable", "train/baselines", "train/rollbacks", "train/rolled_back_from",
	"actor/ratio_mean", "actor/ratio_min", "actor/ppo_kl_k3", "actor/ppo_kl_abs", "actor/loss_tokens", "actor/loss_rows",
	"actor/turns_per_row", "actor/teacher_kl", "actor/unhinted_rows", "actor/echo_loss", "actor/echo_nll",
	"actor/turn_len_mean", "actor/turn_log_ratio_std", "actor/distillation_abs_loss", "actor/distillation_loss_min",
	"actor/distillation_loss_max", "actor/is_masked_high", "actor/is_masked_low", "actor/masked_mismatch_kl",
	"actor/unmasked_mismatch_kl", "actor/distillation_student_mass", "actor/distillation_teacher_mass",
	"val-aux/<source>/<section>_reward/mean@<n>", "val-aux/<source>/<section>_reward/std@<n>",
	"val-aux/<source>/<section>_reward/best@<k>/mean", "val-aux/<source>/<section>_reward/best@<k>/std",
	"val-aux/<source>/<section>_reward/worst@<k>/mean", "val-aux/<source>/<section>_reward/worst@<k>/std",
	"critic/score/by_row/mean", "critic/score/by_row/max", "critic/score/by_row/min",
	"imitate/loss", "imitate/grad_norm", "imitate/lr", "_failed/<metric>",
	"judge/claims", "judge/cached", "judge/prompt_tokens", "judge/completion_tokens", "judge/unscored",
	"judge/unscored/<cause>", "time/judge",
	"val/judge/claims", "val/judge/cached", "val/judge/prompt_tokens", "val/judge/completion_tokens", "val/judge/unscored",
	"val/judge/unscored/<cause>",
	"trend/response_length", "trend/grad_norm", "trend/state_without_success", "alarm/<alarm>",
	"perf/executables", "perf/executables_loaded", "perf/tokens_per_pass", "perf/devices", "perf/exchange_share",
	"perf/nodes", "perf/exchange_sent_mb", "perf/exchange_wait_share", "perf/device_memory_mb",
	"perf/device_memory_peak_mb", "perf/max_memory_allocated_gb",
	"rollout/partial_share", "rollout/logprob_diff_mean", "rollout/logprob_diff_max", "rollout/prob_diff_mean",
	"rollout/kl", "rollout/kl_k3", "rollout/ratio_max",
	"perf/engine_servers", "perf/engine_requests", "perf/engine_responses", "perf/engine_failures", "perf/engine_retries",
	"perf/engine_aborts",
	"perf/engine_ejections", "perf/engine_lost", "perf/engine_mixed_responses", "perf/engine_mixed_tokens",
	"perf/engine_publishes",
	"perf/engine_publish_s", "perf/engine_export_s", "perf/teacher_servers",
	"perf/teacher_requests", "perf/teacher_failures",
	"perf/teacher_retries", "perf/teacher_ejections",
	"perf/queue_played", "perf/queue_resumed", "perf/queue_duplicates", "perf/queue_faults", "perf/queue_died",
	"perf/queue_invalid", "perf/queue_unusable", "perf/queue_redealt", "perf/queue_refused", "perf/queue_undelivered",
}

// documented returns the names in the tables of docs/results.md, as patterns.
func documented(t *testing.T) map[string]*regexp.Regexp {
	t.Helper()
	raw, err := os.ReadFile("../docs/results.md")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(raw), "## Names of metrics")
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
	require.ElementsMatch(t, unmet, missing)
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
