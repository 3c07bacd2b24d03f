package run

import (
	"fmt"
	"slices"
	"strings"

	"vagen/train/config"
)

// setsSteps reports whether a line of config.Differences is about the number of steps alone.
func setsSteps(line string) bool {
	key, _, _ := strings.Cut(line, ":")
	return slices.Contains([]string{"trainer.total_training_steps", "trainer.total_epochs", "sft.total_training_steps",
		"sft.total_epochs"}, key)
}

// stepsChange says what another number of steps means for a run that has done some steps with the
// configuration old; "" if it is the same run, of another length. A longer run is
// always allowed: its remaining steps are those of the new length. A number that is not
// known yet, because it follows from epochs, is compared later.
func stepsChange(old, c *config.Config, done int) (note string, refused bool) {
	was, is := old.Trainer.Steps, c.Trainer.Steps
	if was == is || is == config.StepsFromEpochs {
		return "", false
	}
	if is < done {
		return fmt.Sprintf("steps: the run has done %d, which is more than %d", done, is), true
	}
	if why := dependsOnSteps(c); len(why) > 0 {
		return fmt.Sprintf("steps: with %d instead of %d all of them are different, because %s; only the remaining ones will be those of a run of %d steps", is, was, strings.Join(why, ", "), is), is < was
	}
	return "", false
}

// dependsOnSteps lists the settings because of which the results of a step depend on
// the number of steps of the run, as texts "key is value". If there are none, a run
// that ends after more or fewer steps has the same weights, episodes and metrics of
// training after each step that it has in common with this one.
func dependsOnSteps(c *config.Config) []string {
	var out []string
	add := func(depends bool, key string, value any) {
		if depends {
			out = append(out, fmt.Sprintf("%s is %v", key, value))
		}
	}
	schedules(c, add)
	if c.Trainer.Stage != config.StageSFT {
		// Replacements of start states have the levels after those of all steps.
		add(c.Data.GenBatch > 0 && len(c.Data.TrainFiles) == 0, "data.gen_batch_size", c.Data.GenBatch)
		// Before its last steps a run collects no episodes ahead.
		add(c.Run.Async, "run.async", true)
	}
	// After its last step a run has a validation and a checkpoint of its own.
	add(c.Stability.Early.Metric != "", "stability.early_stopping.metric", c.Stability.Early.Metric)
	add(c.Stability.Spike.Metric != "" && c.Stability.Spike.Action == config.ActionRollback, "stability.spike.action",
		config.ActionRollback)
	return out
}

// schedules calls add for the settings of schedules, which may depend on the number of steps.
func schedules(c *config.Config, add func(depends bool, key string, value any)) {
	optim := func(key string, o *config.OptimConfig) {
		add(o.Style != "constant", key+".warmup_style", o.Style)
		add(o.WarmupSteps <= 0 && o.WarmupRatio > 0, key+".lr_warmup_steps_ratio", o.WarmupRatio)
	}
	if c.Trainer.Stage == config.StageSFT {
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
