package config

import (
	"math"
	"slices"
	"strings"
)

// StabilityConfig says what is done when a run goes wrong, when it is good enough,
// and how bounds and penalties move over the steps.
type StabilityConfig struct {
	Spike  SpikeConfig    `yaml:"spike"`
	Early  EarlyConfig    `yaml:"early_stopping"`
	Alarms AlarmConfig    `yaml:"alarms"`
	Clip   ScheduleConfig `yaml:"clip_schedule"`
	KL     ScheduleConfig `yaml:"kl_schedule"`
}

// SpikeConfig watches a metric of training steps for spikes. A step is one when
// the size of the metric is not finite, or further from the mean of the steps
// before it than so many of their standard deviations; a deviation is never taken
// for less than a twentieth of the mean.
type SpikeConfig struct {
	Metric       string  `yaml:"metric" null:"" doc:"metric of a step that is watched, such as actor/grad_norm or critic/vf_loss; empty watches none"`
	Window       int     `yaml:"window" doc:"steps that a step is compared with; fewer than half of them raise no suspicion"`
	Deviations   float64 `yaml:"deviations" doc:"standard deviations from the mean of the window that make a spike"`
	Action       string  `yaml:"action" doc:"warn, rollback (go back to the newest checkpoint and play other episodes from there) or stop"`
	MaxRollbacks int     `yaml:"max_rollbacks" doc:"rollbacks of a run after which another spike stops it"`
}

// EarlyConfig ends a run that gets no better.
type EarlyConfig struct {
	Metric   string  `yaml:"metric" null:"" doc:"metric of validation that has to grow, or with a minus in front to fall; empty never stops early"`
	Patience int     `yaml:"patience" doc:"validations in a row without a better one after which the run saves and ends"`
	MinDelta float64 `yaml:"min_delta" doc:"by how much a validation has to be better to count"`
}

// AlarmConfig watches for a policy that collapses. The defaults are what no healthy
// run was seen to reach, so that an alarm is worth reading. An alarm whose metric was
// not measured in a step leaves that step out. While it is on, steps have the metric
// alarm/<key>: for how many steps in a row the metric has been beyond its limit.
type AlarmConfig struct {
	Action       string   `yaml:"action" doc:"warn, in the log and with the metrics alarm/<key>, or stop"`
	Patience     int      `yaml:"patience" doc:"steps in a row beyond a limit that turn its alarm on; one step within it turns it off. 3 leaves out single bad batches"`
	MinEntropy   *float64 `yaml:"min_entropy" doc:"least actor/entropy in nats per token; null is no alarm. Below 0.01 the samples of a group are nearly copies of each other: exploration has ended"`
	MinFormat    *float64 `yaml:"min_format" doc:"least share of well-formed responses, train/format_correct; null is no alarm. Below 0.05 the environment understands nearly nothing and rewards say little"`
	MaxTruncated *float64 `yaml:"max_truncated" doc:"largest share of responses cut off by the limit, train/truncated; null is no alarm. Above 0.9 responses run on without an end, or data.max_response_length is too small for the task"`
	MaxEqual     *float64 `yaml:"max_equal_groups" doc:"largest share of groups whose episodes all earned the same, reward_variance/zero_share, where rollout_manager.n_trajectory is above 1; null is no alarm. Above 0.99 comparing episodes teaches nothing; falling variance precedes collapse (RAGEN, arXiv:2504.20073)"`
	MaxKL        *float64 `yaml:"max_kl" doc:"largest actor/ppo_kl in nats per token, of either sign: how far a step's updates move the policy; null is no alarm. PPO aims at 0.01 to 0.05, above 0.5 its trust region does not hold"`
	MaxRatio     *float64 `yaml:"max_ratio" doc:"largest actor/ratio_max, the largest probability ratio of a token in a step; null is no alarm. Above 1e6 a token that was next to impossible became common, or old and new log-probs do not belong together"`
	MaxRepeated  *float64 `yaml:"max_repeated" doc:"largest share of phrases that are also said for other start states, template/repeated; null is no alarm, the default because short answers in a fixed format repeat themselves in healthy runs"`
}

// ScheduleConfig moves a number over the training steps.
type ScheduleConfig struct {
	Style string  `yaml:"style" doc:"constant, or how it falls or rises from the first step to the last: linear or cosine"`
	End   float64 `yaml:"end_ratio" doc:"share of the number that is left at the last step; above 1 it rises"`
}

// What to do about a spike or an alarm.
const (
	ActionWarn     = "warn"
	ActionRollback = "rollback"
	ActionStop     = "stop"
)

func defaultStability() StabilityConfig {
	return StabilityConfig{
		Spike:  SpikeConfig{Window: 20, Deviations: 6, Action: ActionWarn, MaxRollbacks: 3},
		Early:  EarlyConfig{Patience: 5},
		Alarms: defaultAlarms(),
		Clip:   ScheduleConfig{Style: "constant", End: 1}, KL: ScheduleConfig{Style: "constant", End: 1},
	}
}

func defaultAlarms() AlarmConfig {
	limit := func(x float64) *float64 { return &x }
	return AlarmConfig{
		Action: ActionWarn, Patience: 3, MinEntropy: limit(0.01), MinFormat: limit(0.05), MaxTruncated: limit(0.9),
		MaxEqual: limit(0.99), MaxKL: limit(0.5), MaxRatio: limit(1e6),
	}
}

// stability checks what is done about trouble.
func (v *validator) stability(c *Config) {
	s := &c.Stability
	v.positive("stability.spike.window", s.Spike.Window)
	v.within("stability.spike.deviations", s.Spike.Deviations, 1, large)
	v.oneOf("stability.spike.action", s.Spike.Action, ActionWarn, ActionRollback, ActionStop)
	v.count("stability.spike.max_rollbacks", s.Spike.MaxRollbacks)
	if s.Spike.Metric != "" && s.Spike.Action == ActionRollback && c.Trainer.SaveFreq < 1 {
		v.say("stability.spike.action is rollback, but trainer.save_freq is %d: there is no checkpoint to go back to", c.Trainer.SaveFreq)
	}
	v.positive("stability.early_stopping.patience", s.Early.Patience)
	v.within("stability.early_stopping.min_delta", s.Early.MinDelta, 0, large)
	if s.Early.Metric != "" && c.Trainer.TestFreq < 1 {
		v.say("stability.early_stopping.metric is set, but trainer.test_freq is %d: nothing is validated on the way", c.Trainer.TestFreq)
	}
	if s.Early.Metric != "" && strings.TrimPrefix(s.Early.Metric, "-") == "" {
		v.say("stability.early_stopping.metric is %q, must name a metric", s.Early.Metric)
	}
	v.oneOf("stability.alarms.action", s.Alarms.Action, ActionWarn, ActionStop)
	v.positive("stability.alarms.patience", s.Alarms.Patience)
	for _, a := range s.Alarms.Thresholds() {
		if a.Limit != nil {
			v.within("stability.alarms."+a.Key, *a.Limit, 0, a.most)
		}
	}
	if s.Alarms.MaxRepeated != nil && !slices.Contains(c.Trainer.Metrics, "all") && !slices.Contains(c.Trainer.Metrics, "template_collapse") {
		v.say("stability.alarms.max_repeated is set, but trainer.metrics is %q: it needs template_collapse", c.Trainer.Metrics)
	}
	for _, schedule := range []struct {
		key string
		c   *ScheduleConfig
	}{{"clip_schedule", &s.Clip}, {"kl_schedule", &s.KL}} {
		v.oneOf("stability."+schedule.key+".style", schedule.c.Style, "constant", "linear", "cosine")
		v.within("stability."+schedule.key+".end_ratio", schedule.c.End, 0, 1000)
	}
	if s.KL.Style != "constant" && c.Algorithm.KLInReward && c.Algorithm.KLCtrl.Type == "adaptive" {
		v.say("stability.kl_schedule moves the coefficient that algorithm.kl_ctrl.type adaptive steers: choose one")
	}
}

// threshold is one alarm.
type threshold struct {
	Key, Metric string
	Limit       *float64 // nil for no alarm
	above       bool     // on when the size of the metric is above the limit; else when it is below
	most        float64  // that the limit may be
}

func (c *AlarmConfig) Thresholds() []threshold {
	return []threshold{
		{"min_entropy", "actor/entropy", c.MinEntropy, false, large},
		{"min_format", "train/format_correct", c.MinFormat, false, 1},
		{"max_truncated", "train/truncated", c.MaxTruncated, true, 1},
		{"max_equal_groups", "reward_variance/zero_share", c.MaxEqual, true, 1},
		{"max_kl", "actor/ppo_kl", c.MaxKL, true, large},
		{"max_ratio", "actor/ratio_max", c.MaxRatio, true, large},
		{"max_repeated", "template/repeated", c.MaxRepeated, true, 1},
	}
}

// Beyond reports whether a metric is beyond the limit; NaN is.
func (a *threshold) Beyond(x float64) bool {
	if a.above {
		return !(math.Abs(x) <= *a.Limit)
	}
	return !(x >= *a.Limit)
}
