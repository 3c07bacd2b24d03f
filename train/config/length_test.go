package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStoredKeysAreComparedAsTheyAreNow: a key that was added since has its default in the stored
// configuration; one that was removed, or whose default is another now, is a difference with both
// values.
func TestStoredKeysAreComparedAsTheyAreNow(t *testing.T) {
	c := Default()
	raw, err := c.Stored()
	require.NoError(t, err)
	line := func(key string) string {
		for l := range strings.Lines(string(raw)) {
			if strings.HasPrefix(strings.TrimSpace(l), key+":") {
				return l
			}
		}
		t.Fatal(key)
		return ""
	}
	// Written before algorithm.lambda_turn and env.val_seed were added, when the default of lam was another.
	older := string(raw)
	for old, was := range map[string]string{line("lambda_turn"): "", line("val_seed"): "", line("lam"): "  lam: 0.5\n"} {
		require.Equal(t, 1, strings.Count(older, old), old)
		older = strings.Replace(older, old, was, 1)
	}
	_, lines, err := StoredDifferences("older.yaml", []byte(older), &c)
	require.NoError(t, err)
	require.Equal(t, []string{"algorithm.lam: 0.5 → " + ValueText(c.Algorithm.Lambda)}, lines)

	before := ValueText(c.Env.ValSeed)
	c.Env.ValSeed = 77
	older += "gone:\n  api_key: secret\n  list: [1, 2]\nlost: {a: 1}\n"
	stored, lines, err := StoredDifferences("older.yaml", []byte(older), &c)
	require.NoError(t, err)
	require.InDelta(t, 0.5, stored.Algorithm.Lambda, 0)
	require.Equal(t, "env.val_seed: "+before+" → 77", lines[0], "the new key does not have its default")
	require.Len(t, lines, 4)
	all := strings.Join(lines, "\n")
	require.Contains(t, all, "lost: {\"a\":1} → no such key")
	require.NotContains(t, all, "secret")

	_, err = ReadStored("older.yaml", []byte(older))
	require.ErrorIs(t, err, ErrConfig, "what is read for use must be known")
	_, _, err = StoredDifferences("older.yaml", []byte("model: 3\n"), &c)
	require.ErrorIs(t, err, ErrConfig)
}

// TestStepsThatDependOnTheirNumberAreNamed, with the settings that are the reason.
func TestStepsThatDependOnTheirNumberAreNamed(t *testing.T) {
	c := Default()
	require.Empty(t, c.DependsOnSteps())
	for want, change := range map[string]func(*Config){
		"actor_rollout_ref.actor.optim.warmup_style is cosine":       func(c *Config) { c.Agent.Actor.Optim.Style = "cosine" },
		"actor_rollout_ref.actor.optim.lr_warmup_steps_ratio is 0.1": func(c *Config) { c.Agent.Actor.Optim.WarmupRatio = 0.1 },
		"critic.optim.warmup_style is linear":                        func(c *Config) { c.Critic.Optim.Style = "linear" },
		"stability.clip_schedule.style is cosine":                    func(c *Config) { c.Stability.Clip.Style = "cosine" },
		"stability.kl_schedule.style is linear":                      func(c *Config) { c.Stability.KL.Style = "linear" },
		"data.gen_batch_size is 8":                                   func(c *Config) { c.Data.GenBatch = 8 },
		"run.async is true":                                          func(c *Config) { c.Run.Async = true },
		"stability.early_stopping.metric is val/success":             func(c *Config) { c.Stability.Early.Metric = "val/success" },
		"stability.spike.action is rollback": func(c *Config) {
			c.Stability.Spike.Metric, c.Stability.Spike.Action = "actor/grad_norm", ActionRollback
		},
	} {
		c := Default()
		change(&c)
		require.Equal(t, []string{want}, c.DependsOnSteps())
	}
	for name, change := range map[string]func(*Config){
		"a warm-up of so many steps":    func(c *Config) { c.Agent.Actor.Optim.WarmupSteps, c.Agent.Actor.Optim.WarmupRatio = 5, 0.1 },
		"a critic without an optimiser": func(c *Config) { c.Critic.Kind, c.Critic.Optim.Style = "shared", "cosine" },
		"the next levels of a file":     func(c *Config) { c.Data.GenBatch, c.Data.TrainFiles = 8, []string{"levels.yaml"} },
		"a spike that stops":            func(c *Config) { c.Stability.Spike.Metric, c.Stability.Spike.Action = "actor/grad_norm", "stop" },
		"reinforcement learning in the supervised stage": func(c *Config) {
			c.Trainer.Stage, c.Agent.Actor.Optim.Style, c.Run.Async = StageSFT, "cosine", true
			c.SFT.Optim.Style, c.SFT.Optim.WarmupRatio = "constant", 0
		},
	} {
		c := Default()
		change(&c)
		require.Empty(t, c.DependsOnSteps(), name)
	}
	c.Trainer.Stage = StageSFT
	require.Equal(t, []string{"sft.optim.warmup_style is cosine", "sft.optim.lr_warmup_steps_ratio is 0.05"}, c.DependsOnSteps())
}
