package config

import "fmt"

// DependsOnSteps lists the settings because of which the results of a step depend on
// the number of steps of the run, as texts "key is value". If there are none, a run
// that ends after more or fewer steps has the same weights, episodes and metrics of
// training after each step that it has in common with this one.
func (c *Config) DependsOnSteps() []string {
	var out []string
	add := func(depends bool, key string, value any) {
		if depends {
			out = append(out, fmt.Sprintf("%s is %v", key, value))
		}
	}
	c.schedules(add)
	if c.Trainer.Stage != StageSFT {
		// Replacements of start states have the levels after those of all steps.
		add(c.Data.GenBatch > 0 && len(c.Data.TrainFiles) == 0, "data.gen_batch_size", c.Data.GenBatch)
		// Before its last steps a run collects no episodes ahead.
		add(c.Run.Async, "run.async", true)
	}
	// After its last step a run has a validation and a checkpoint of its own.
	add(c.Stability.Early.Metric != "", "stability.early_stopping.metric", c.Stability.Early.Metric)
	add(c.Stability.Spike.Metric != "" && c.Stability.Spike.Action == ActionRollback, "stability.spike.action", ActionRollback)
	return out
}

// schedules calls add for the settings of schedules, which may depend on the number of steps.
func (c *Config) schedules(add func(depends bool, key string, value any)) {
	optim := func(key string, o *OptimConfig) {
		add(o.Style != "constant", key+".warmup_style", o.Style)
		add(o.WarmupSteps <= 0 && o.WarmupRatio > 0, key+".lr_warmup_steps_ratio", o.WarmupRatio)
	}
	if c.Trainer.Stage == StageSFT {
		optim("sft.optim", &c.SFT.Optim)
		return
	}
	optim("actor_rollout_ref.actor.optim", &c.Agent.Actor.Optim)
	if c.Critic.Kind == "separate" {
		optim("critic.optim", &c.Critic.Optim)
	}
	add(c.Stability.Clip.Style != "constant", "stability.clip_schedule.style", c.Stability.Clip.Style)
	add(c.Stability.KL.Style != "constant", "stability.kl_schedule.style", c.Stability.KL.Style)
}
