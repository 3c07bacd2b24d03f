package run

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/train/config"
)

// TestStepsThatDependOnTheirNumberAreNamed, with the settings that are the reason.
func TestStepsThatDependOnTheirNumberAreNamed(t *testing.T) {
	c := config.Default()
	require.Empty(t, dependsOnSteps(&c))
	for want, change := range map[string]func(*config.Config){
		"actor_rollout_ref.actor.optim.warmup_style is cosine": func(c *config.Config) {
			c.Agent.Actor.Optim.Style = "cosine"
		},
		"actor_rollout_ref.actor.optim.lr_warmup_steps_ratio is 0.1": func(c *config.Config) {
			c.Agent.Actor.Optim.WarmupRatio = 0.1
		},
		"critic.optim.warmup_style is linear": func(c *config.Config) {
			c.Critic.Optim.Style = "linear"
		},
		"stability.clip_schedule.style is cosine": func(c *config.Config) {
			c.Stability.Clip.Style = "cosine"
		},
		"stability.kl_schedule.style is linear": func(c *config.Config) {
			c.Stability.KL.Style = "linear"
		},
		"data.gen_batch_size is 8": func(c *config.Config) { c.Data.GenBatch = 8 },
		"run.async is true":        func(c *config.Config) { c.Run.Async = true },
		"stability.early_stopping.metric is val/success": func(c *config.Config) {
			c.Stability.Early.Metric = "val/success"
		},
		"stability.spike.action is rollback": func(c *config.Config) {
			c.Stability.Spike.Metric, c.Stability.Spike.Action = "actor/grad_norm", config.ActionRollback
		},
	} {
		c := config.Default()
		change(&c)
		require.Equal(t, []string{want}, dependsOnSteps(&c))
	}
	for name, change := range map[string]func(*config.Config){
		"a warm-up of so many steps": func(c *config.Config) {
			c.Agent.Actor.Optim.WarmupSteps, c.Agent.Actor.Optim.WarmupRatio = 5, 0.1
		},
		"a critic without an optimiser": func(c *config.Config) { c.Critic.Kind, c.Critic.Optim.Style = "shared", "cosine" },
		"the next levels of a file": func(c *config.Config) {
			c.Data.GenBatch, c.Data.TrainFiles = 8, []string{"levels.yaml"}
		},
		"a spike that stops": func(c *config.Config) {
			c.Stability.Spike.Metric, c.Stability.Spike.Action = "actor/grad_norm", "stop"
		},
		"reinforcement learning in the supervised stage": func(c *config.Config) {
			c.Trainer.Stage, c.Agent.Actor.Optim.Style, c.Run.Async = config.StageSFT, "cosine", true
			c.SFT.Optim.Style, c.SFT.Optim.WarmupRatio = "constant", 0
		},
	} {
		c := config.Default()
		change(&c)
		require.Empty(t, dependsOnSteps(&c), name)
	}
	c.Trainer.Stage = config.StageSFT
	require.Equal(t, []string{"sft.optim.warmup_style is cosine", "sft.optim.lr_warmup_steps_ratio is 0.05"},
		dependsOnSteps(&c))
}
