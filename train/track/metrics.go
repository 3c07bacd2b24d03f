package track

import (
	"slices"
	"strings"
)

// Stages of a training step, in their order, and those outside of steps.
const (
	StageImitation  = "imitation" // before the first step
	StageEpisodes   = "episodes"
	StageAdvantages = "scores, rewards and advantages"
	StageUpdate     = "update"
	StageValidation = "validation"
)

// Metric is what is known of a metric of runs, or of all whose names begin with Name if that ends
// in a slash or an underscore. docs/results.md has their meaning.
type Metric struct {
	Name    string
	Stage   string // the stage that computes it
	Machine bool   // depends on the machine; all others are equal in every run of a configuration
	// Playing means that it is measured while episodes are played, and does not follow from what
	// is recorded of them.
	Playing bool
	Aliases []string // further names for the same number, as in VAGEN and verl
}

// metrics are all metrics of runs. Of several families that contain a name the one with the longest
// Name counts.
var metrics = []Metric{
	{Name: "training/", Stage: StageEpisodes},
	{Name: "train/", Stage: StageEpisodes},
	{Name: "train/success", Stage: StageEpisodes, Aliases: []string{"custom_metrics/train/traj_success"}},
	{Name: "train/played", Stage: StageEpisodes, Playing: true},
	{Name: "train/played_unusable", Stage: StageEpisodes, Playing: true},
	{Name: "train/trained_tokens", Stage: StageUpdate},
	{Name: "train/by_source/", Stage: StageEpisodes, Playing: true},
	{Name: "pool/", Stage: StageEpisodes, Playing: true},
	{Name: "num_turns/", Stage: StageEpisodes},
	{Name: "custom_metrics/train/", Stage: StageEpisodes},
	{Name: "response_length/", Stage: StageEpisodes},
	{Name: "prompt_length/", Stage: StageEpisodes},
	{Name: "template/", Stage: StageEpisodes},
	{Name: "judge/", Stage: StageEpisodes, Playing: true},
	{Name: "reward_variance", Stage: StageEpisodes, Aliases: []string{"custom_metrics/train/reward_variance"}},
	{Name: "reward_variance/", Stage: StageEpisodes},
	{Name: "rollout/staleness_mean", Stage: StageEpisodes, Playing: true},
	{Name: "rollout/staleness_max", Stage: StageEpisodes, Playing: true},
	{Name: "rollout/partial_share", Stage: StageEpisodes, Playing: true},
	{Name: "trend/response_length", Stage: StageEpisodes},
	{Name: "trend/state_without_success", Stage: StageEpisodes},

	{Name: "rollout/", Stage: StageAdvantages},
	{Name: "rollout_corr/", Stage: StageAdvantages},
	{Name: "reward/", Stage: StageAdvantages},
	{Name: "actor/reward_kl_penalty", Stage: StageAdvantages, Aliases: []string{"critic/kl"}},
	{Name: "actor/reward_kl_penalty_coeff", Stage: StageAdvantages, Aliases: []string{"critic/kl_coeff"}},
	{Name: "critic/score/", Stage: StageAdvantages},
	{Name: "critic/rewards/", Stage: StageAdvantages},
	{Name: "critic/advantages/", Stage: StageAdvantages},
	{Name: "critic/returns/", Stage: StageAdvantages},
	{Name: "critic/values/", Stage: StageAdvantages},
	{Name: "critic/vf_explained_var", Stage: StageAdvantages},
	{Name: "explained_variance", Stage: StageAdvantages},
	{Name: "advantage_share/", Stage: StageAdvantages},
	{Name: "filter/", Stage: StageAdvantages},
	{Name: "gate/", Stage: StageAdvantages},
	{Name: "_failed/", Stage: StageAdvantages},

	{Name: "actor/", Stage: StageUpdate},
	{Name: "critic/", Stage: StageUpdate},
	{Name: "sft/", Stage: StageUpdate},
	{Name: "trend/grad_norm", Stage: StageUpdate},
	{Name: "alarm/", Stage: StageUpdate},

	{Name: "imitate/", Stage: StageImitation},
	{Name: "sft/val_", Stage: StageValidation},
	{Name: "val/", Stage: StageValidation},
	{Name: "val-core/", Stage: StageValidation},
	{Name: "val-aux/", Stage: StageValidation},

	{Name: "time/", Stage: StageUpdate, Machine: true},
	{Name: "time/step", Stage: StageUpdate, Machine: true, Aliases: []string{"timing_s/step", "perf/time_per_step"}},
	{Name: "time/logprobs", Stage: StageAdvantages, Machine: true, Aliases: []string{"timing_s/old_log_prob"}},
	{Name: "time/advantages", Stage: StageAdvantages, Machine: true, Aliases: []string{"timing_s/adv"}},
	{Name: "time/validate", Stage: StageValidation, Machine: true, Aliases: []string{"timing_s/testing"}},
	{Name: "timing_s/", Stage: StageUpdate, Machine: true},
	{Name: "timing_per_token_ms/", Stage: StageUpdate, Machine: true},
	{Name: "perf/", Stage: StageUpdate, Machine: true},
}

// MetricOf returns what is known of a metric by one of its names. ok is false for the metrics that
// users register, which are computed from a step's advantages.
func MetricOf(name string) (of Metric, ok bool) {
	of = Metric{Name: name, Stage: StageAdvantages}
	longest := 0
	for _, m := range metrics {
		switch family := strings.HasSuffix(m.Name, "/") || strings.HasSuffix(m.Name, "_"); {
		case m.Name == name || slices.Contains(m.Aliases, name):
			return m, true
		case family && strings.HasPrefix(name, m.Name) && len(m.Name) > longest:
			of, ok, longest = m, true, len(m.Name)
		}
	}
	return of, ok
}

// MachineMetric reports whether a metric depends on the machine: seconds, megabytes of memory, tokens
// per second and the like. All others are the same in every run of one configuration.
func MachineMetric(name string) bool {
	m, _ := MetricOf(name)
	return m.Machine
}

// AddAliases adds the metrics of an event of a kind under their further names.
func (m Metrics) AddAliases(kind string) {
	for _, of := range metrics {
		x, ok := m[of.Name]
		if !ok || (of.Stage == StageValidation) != (kind == KindValidate) {
			continue
		}
		for _, name := range of.Aliases {
			m[name] = x
		}
	}
}
