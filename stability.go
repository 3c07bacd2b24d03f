package vagen

import "strings"

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

// AlarmConfig watches for a policy that collapses.
type AlarmConfig struct {
	Action       string   `yaml:"action" doc:"warn or stop"`
	Patience     int      `yaml:"patience" doc:"steps in a row beyond a threshold that ring the alarm"`
	MinEntropy   *float64 `yaml:"min_entropy" doc:"least actor/entropy in nats per token; null is no alarm"`
	MinFormat    *float64 `yaml:"min_format" doc:"least share of well-formed responses, train/format_correct; null is no alarm"`
	MaxTruncated *float64 `yaml:"max_truncated" doc:"largest share of responses cut off by the limit, train/truncated; null is no alarm"`
	MaxRepeated  *float64 `yaml:"max_repeated" doc:"largest share of phrases that are also said for other start states, template/repeated; null is no alarm"`
}

// ScheduleConfig moves a number over the training steps.
type ScheduleConfig struct {
	Style string  `yaml:"style" doc:"constant, or how it falls or rises from the first step to the last: linear or cosine"`
	End   float64 `yaml:"end_ratio" doc:"share of the number that is left at the last step; above 1 it rises"`
}

// What to do about a spike or an alarm.
const (
	actWarn     = "warn"
	actRollback = "rollback"
	actStop     = "stop"
)

func defaultStability() StabilityConfig {
	return StabilityConfig{
		Spike:  SpikeConfig{Window: 20, Deviations: 6, Action: actWarn, MaxRollbacks: 3},
		Early:  EarlyConfig{Patience: 5},
		Alarms: AlarmConfig{Action: actWarn, Patience: 3},
		Clip:   ScheduleConfig{Style: "constant", End: 1}, KL: ScheduleConfig{Style: "constant", End: 1},
	}
}

// factor is the share of a number at a step (from 1).
func (c *ScheduleConfig) factor(step, total int) float64 {
	if c.Style == "constant" || total < 2 {
		return 1
	}
	return c.End + (1-c.End)*fall(c.Style, float64(step-1)/float64(total-1))
}

// stability checks what is done about trouble.
func (v *validator) stability(c *Config) {
	s := &c.Stability
	v.positive("stability.spike.window", s.Spike.Window)
	v.within("stability.spike.deviations", s.Spike.Deviations, 1, large)
	v.oneOf("stability.spike.action", s.Spike.Action, actWarn, actRollback, actStop)
	v.count("stability.spike.max_rollbacks", s.Spike.MaxRollbacks)
	if s.Spike.Metric != "" && s.Spike.Action == actRollback && c.Trainer.SaveFreq < 1 {
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
	v.oneOf("stability.alarms.action", s.Alarms.Action, actWarn, actStop)
	v.positive("stability.alarms.patience", s.Alarms.Patience)
	for _, a := range s.Alarms.thresholds() {
		if a.limit != nil {
			v.within("stability.alarms."+a.key, *a.limit, 0, a.most)
		}
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
	key, metric string
	limit       *float64
	above       bool // rings above the limit; else below
	most        float64
}

func (c *AlarmConfig) thresholds() []threshold {
	return []threshold{
		{"min_entropy", "actor/entropy", c.MinEntropy, false, large},
		{"min_format", "train/format_correct", c.MinFormat, false, 1},
		{"max_truncated", "train/truncated", c.MaxTruncated, true, 1},
		{"max_repeated", "template/repeated", c.MaxRepeated, true, 1},
	}
}
