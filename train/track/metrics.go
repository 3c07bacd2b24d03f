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

// metrics are all metrics of runs, by the stage that computes them. Of several families that contain a name the one
// with the longest Name counts.
var metrics = staged(map[string][]Metric{
	StageEpisodes: {
		{Name: "training/"},
		{Name: "train/"},
		{Name: "train/success", Aliases: []string{"custom_metrics/train/traj_success"}},
		{Name: "train/played", Playing: true},
		{Name: "train/played_unusable", Playing: true},
		{Name: "train/by_source/", Playing: true},
		{Name: "pool/", Playing: true},
		{Name: "num_turns/"},
		{Name: "custom_metrics/train/"},
		{Name: "response_length/"},
		{Name: "prompt_length/"},
		{Name: "template/"},
		{Name: "judge/", Playing: true},
		{Name: "reward_variance", Aliases: []string{"custom_metrics/train/reward_variance"}},
		{Name: "reward_variance/"},
		{Name: "rollout/staleness_mean", Playing: true},
		{Name: "rollout/staleness_max", Playing: true},
		{Name: "rollout/partial_share", Playing: true},
		{Name: "trend/response_length"},
		{Name: "trend/state_without_success"},
	},
	StageUpdate: {
		{Name: "train/trained_tokens"},
		{Name: "actor/"},
		{Name: "critic/"},
		{Name: "sft/"},
		{Name: "trend/grad_norm"},
		{Name: "alarm/"},
		{Name: "time/", Machine: true},
		{Name: "time/step", Machine: true, Aliases: []string{"timing_s/step", "perf/time_per_step"}},
		{Name: "timing_s/", Machine: true},
		{Name: "timing_per_token_ms/", Machine: true},
		{Name: "perf/", Machine: true},
	},
	StageAdvantages: {
		{Name: "rollout/"},
		{Name: "rollout_corr/"},
		{Name: "reward/"},
		{Name: "actor/reward_kl_penalty", Aliases: []string{"critic/kl"}},
		{Name: "actor/reward_kl_penalty_coeff", Aliases: []string{"critic/kl_coeff"}},
		{Name: "critic/score/"},
		{Name: "critic/rewards/"},
		{Name: "critic/advantages/"},
		{Name: "critic/returns/"},
		{Name: "critic/values/"},
		{Name: "critic/vf_explained_var"},
		{Name: "explained_variance"},
		{Name: "advantage_share/"},
		{Name: "filter/"},
		{Name: "gate/"},
		{Name: "_failed/"},
		{Name: "time/logprobs", Machine: true, Aliases: []string{"timing_s/old_log_prob"}},
		{Name: "time/advantages", Machine: true, Aliases: []string{"timing_s/adv"}},
	},
	StageImitation: {
		{Name: "imitate/"},
	},
	StageValidation: {
		{Name: "sft/val_"},
		{Name: "val/"},
		{Name: "val-core/"},
		{Name: "val-aux/"},
		{Name: "time/validate", Machine: true, Aliases: []string{"timing_s/testing"}},
	},
})

// staged lists metrics with their stage.
func staged(by map[string][]Metric) (all []Metric) {
	for stage, list := range by {
		for _, m := range list {
			m.Stage = stage
			all = append(all, m)
		}
	}
	return all
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
