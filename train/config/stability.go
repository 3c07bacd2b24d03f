package config

import (
	"math"
	"reflect"
	"slices"
	"strings"

	"vagen/internal/field"
)

// StabilityConfig sets how a run reacts to spikes and collapse, when it stops early,
// and how the clip range and the KL coefficient change over the steps.
type StabilityConfig struct {
	Spike  SpikeConfig    `yaml:"spike"`
	Early  EarlyConfig    `yaml:"early_stopping"`
	Alarms AlarmConfig    `yaml:"alarms"`
	Clip   ScheduleConfig `yaml:"clip_schedule"`
	KL     ScheduleConfig `yaml:"kl_schedule"`
}

// SpikeConfig watches a metric of training steps for spikes. A step is a spike if the
// magnitude of the metric is not finite, or differs from its mean over the previous
// steps by more than Deviations of their standard deviation, which counts as at least
// a twentieth of the mean.
type SpikeConfig struct {
	Metric       string  `yaml:"metric" null:"" doc:"metric of training steps to watch, such as actor/grad_norm or critic/vf_loss; empty disables it"`
	Window       int     `yaml:"window" default:"20" count:"positive" idle:"stability.spike.metric is null" doc:"number of previous steps to compare with; nothing is detected before half of them exist"`
	Deviations   float64 `yaml:"deviations" default:"6" range:"1,1e+12" idle:"stability.spike.metric is null" doc:"distance from the mean of the window, in standard deviations, that is a spike"`
	Action       string  `yaml:"action" default:"warn" oneof:"warn rollback stop" idle:"stability.spike.metric is null" doc:"warn, rollback (return to the newest checkpoint and continue with other episodes) or stop"`
	MaxRollbacks int     `yaml:"max_rollbacks" default:"3" count:"0" idle:"stability.spike.metric is null; stability.spike.action is warn; stability.spike.action is stop" doc:"maximum rollbacks of a run; another spike stops it"`
}

// EarlyConfig stops a run that no longer improves.
type EarlyConfig struct {
	Metric   string  `yaml:"metric" null:"" doc:"validation metric that must increase, or with a leading minus decrease; empty disables early stopping"`
	Patience int     `yaml:"patience" default:"5" count:"positive" idle:"stability.early_stopping.metric is null" doc:"consecutive validations without improvement after which the run saves and ends"`
	MinDelta float64 `yaml:"min_delta" range:"0,1e+12" idle:"stability.early_stopping.metric is null" doc:"minimum change that counts as an improvement"`
}

// Stops reports whether a run stops after a number of validations in a row without improvement.
func (e *EarlyConfig) Stops(stale int) bool { return e.Metric != "" && stale >= e.Patience }

// AlarmConfig detects a policy that collapses. No healthy run was observed to reach the
// default limits, so alarms are rare. A step in which an alarm's metric was not measured
// does not count for that alarm. While an alarm is on, steps have the metric alarm/<key>:
// the number of consecutive steps in which the metric was beyond its limit.
type AlarmConfig struct {
	Action       string   `yaml:"action" default:"warn" oneof:"warn stop" doc:"warn, in the log and with the metrics alarm/<key>, or stop"`
	Patience     int      `yaml:"patience" default:"3" count:"positive" doc:"consecutive steps beyond a limit that turn its alarm on; one step within it turns it off. 3 ignores single bad batches"`
	MinEntropy   *float64 `yaml:"min_entropy" default:"0.01" alarm:"<actor/entropy" range:"0,1e+12" doc:"minimum actor/entropy in nats per token; null disables the alarm. Below 0.01 the samples of a group are nearly copies of each other: exploration has ended"`
	MinFormat    *float64 `yaml:"min_format" default:"0.05" alarm:"<train/format_correct" range:"0,1" doc:"minimum share of well-formed responses, train/format_correct; null disables the alarm. Below 0.05 the environment can parse almost no response and rewards carry little signal"`
	MaxTruncated *float64 `yaml:"max_truncated" default:"0.9" alarm:">train/truncated" range:"0,1" doc:"maximum share of responses truncated by the length limit, train/truncated; null disables the alarm. Above 0.9 responses do not end, or data.max_response_length is too small for the task"`
	MaxEqual     *float64 `yaml:"max_equal_groups" default:"0.99" alarm:">reward_variance/zero_share" range:"0,1" doc:"maximum share of groups whose episodes all have the same reward, reward_variance/zero_share, if rollout_manager.n_trajectory is above 1; null disables the alarm. Above 0.99 comparing episodes gives no signal; falling variance precedes collapse (RAGEN, arXiv:2504.20073)"`
	MaxKL        *float64 `yaml:"max_kl" default:"0.5" alarm:">actor/ppo_kl" range:"0,1e+12" doc:"maximum absolute actor/ppo_kl in nats per token, which measures how far a step's updates move the policy; null disables the alarm. Typical values of PPO are 0.01 to 0.05; above 0.5 its trust region is violated"`
	MaxRatio     *float64 `yaml:"max_ratio" default:"1e6" alarm:">actor/ratio_max" range:"0,1e+12" doc:"maximum actor/ratio_max, the largest probability ratio of a token in a step; null disables the alarm. Above 1e6 a very unlikely token became likely, or old and new log-probs are not of the same tokens"`
	MinLength    *float64 `yaml:"min_length" default:"0.2" alarm:"<trend/response_length" range:"0,1e+12" doc:"minimum trend/response_length, the mean length of responses as a share of that of the first 10 steps; null disables the alarm. Below 0.2 responses have lost their content, often their reasoning"`
	MaxGradNorm  *float64 `yaml:"max_grad_norm" default:"100" alarm:">trend/grad_norm" range:"0,1e+12" doc:"maximum trend/grad_norm, actor/grad_norm as a multiple of its mean over the first 10 steps; null disables the alarm. Above 100 updates have another direction than those that learned; spikes of the gradient accompany collapse (RAGEN, arXiv:2504.20073)"`
	MaxIdentical *float64 `yaml:"max_identical" default:"0.95" alarm:">train/most_frequent_response" range:"0,1" doc:"maximum share of the most frequent response among all, train/most_frequent_response; null disables the alarm. Above 0.95 the policy answers every observation with the same text"`
	MaxStateGap  *float64 `yaml:"max_state_without_success" default:"0.1" alarm:">trend/state_without_success" range:"0,1" doc:"maximum trend/state_without_success; null disables the alarm. Above 0.1 state rewards rose by more than a tenth between the last two periods of 20 steps while the success rate fell by more than 0.1: statements are optimised instead of the task"`
	MaxUnscored  *float64 `yaml:"max_unscored" default:"0.2" alarm:">judge/unscored" range:"0,1" doc:"maximum share of statements to which the judge gave no score, judge/unscored; null disables the alarm. Above 0.2 the judge is down, slow or of the wrong kind, and state rewards miss many turns"`
	MaxRepeated  *float64 `yaml:"max_repeated" alarm:">template/repeated" range:"0,1" doc:"maximum share of phrases that also occur for other start states, template/repeated; null disables the alarm and is the default, because short answers in a fixed format repeat in healthy runs"`
}

// ScheduleConfig changes a number over the training steps.
type ScheduleConfig struct {
	Style string  `yaml:"style" default:"constant" oneof:"constant linear cosine" doc:"constant, or how the number changes from the first step to the last: linear or cosine"`
	End   float64 `yaml:"end_ratio" default:"1" range:"0,1000" idle:".style is constant" doc:"value at the last step as a fraction of the initial value; above 1 the number increases"`
}

// Actions on a spike or an alarm.
const (
	ActionWarn     = "warn"
	ActionRollback = "rollback"
	ActionStop     = "stop"
)

// stability checks the stability settings.
func (v *validator) stability(c *Config) {
	s := &c.Stability
	group, test, save := c.frequencies()
	if s.Spike.Metric != "" && s.Spike.Action == ActionRollback && save < 1 {
		v.Say("{stability.spike.action} is rollback, but {%s.save_freq} is %d: there is no checkpoint to return to",
			group, save)
	}
	if s.Early.Metric != "" && test < 1 {
		v.Say("{stability.early_stopping.metric} is set, but {%s.test_freq} is %d: "+
			"nothing is validated during training", group, test)
	}
	if s.Early.Metric != "" && strings.TrimPrefix(s.Early.Metric, "-") == "" {
		v.Say("{stability.early_stopping.metric} is %q, must name a metric", s.Early.Metric)
	}
	if s.Alarms.MaxRepeated != nil && !slices.Contains(c.Trainer.Metrics, "all") &&
		!slices.Contains(c.Trainer.Metrics, "template_collapse") {
		v.Say("{stability.alarms.max_repeated} is set, but {trainer.metrics} is %q: it needs template_collapse",
			c.Trainer.Metrics)
	}
	if s.KL.Style != "constant" && c.Algorithm.KLInReward && c.Algorithm.KLCtrl.Type == "adaptive" {
		v.Say("{stability.kl_schedule} changes the coefficient that {algorithm.kl_ctrl.type} adaptive controls: use only one of them")
	}
}

// Threshold is one alarm: the limit of a metric.
type Threshold struct {
	Key, Metric string
	Limit       *float64 // nil for no alarm
	above       bool     // the alarm is on when the absolute metric is above the limit; else when it is below
}

// Thresholds lists the alarms: the fields with a tag alarm, which has the metric, and whether it
// must not be above or below the limit.
func (c *AlarmConfig) Thresholds() []Threshold {
	var out []Threshold
	of := reflect.ValueOf(c).Elem()
	for key, f := range field.Named(of.Type(), "yaml") {
		if metric := f.Tag.Get("alarm"); metric != "" {
			limit, _ := of.FieldByIndex(f.Index).Interface().(*float64)
			out = append(out, Threshold{key, metric[1:], limit, metric[0] == '>'})
		}
	}
	return out
}

// Beyond reports whether a metric is beyond the limit, if there is one. NaN always is.
func (a *Threshold) Beyond(x float64) bool {
	switch {
	case a.Limit == nil:
		return false
	case a.above:
		return !(math.Abs(x) <= *a.Limit)
	}
	return !(x >= *a.Limit)
}
