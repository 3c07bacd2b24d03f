package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/train/config"
)

func TestPresetsAreListedShownAndChecked(t *testing.T) {
	all := decoded[[]config.Preset](t, "config", "presets", "--json")
	table := succeed(t, "config", "presets")
	for _, p := range all {
		require.NotEmpty(t, p.About)
		require.Contains(t, table, p.Name)
		shown := succeed(t, "config", "show", "--preset", p.Name)
		require.Equal(t, shown, succeed(t, "config", "show", testkit.File(t, p.Name+".yaml", shown)),
			"the output is the preset")
		prints(t, "preset "+p.Name+" is valid", "config", "check", "--preset", p.Name, "env=sokoban")
		for _, other := range p.Also {
			require.Equal(t, shown, succeed(t, "config", "show", "--preset", other))
		}
	}
	refuse(t, `unknown preset "vagen_ful", did you mean "vagen_full"?`, "config", "show", "--preset", "vagen_ful")
	refuse(t, "unknown preset", "config", "check", "--preset", "_legacy", "env=sokoban")
	refuse(t, "a configuration is needed", "train")
	require.Equal(t, succeed(t, "config", "show"), succeed(t, "config", "defaults"))
}

func TestDifferencesFromTheDefaultsAreShownWithTheirOrigin(t *testing.T) {
	table := succeed(t, "config", "show", "--diff", "--preset", "TRICO", "env=sokoban", "data.train_batch_size=7")
	require.Regexp(t, `(?m)^key +value +default +legacy +lite +next +from$`, table)
	require.Regexp(t, `(?m)^data.train_batch_size +7 +1024 +128 +128 +override 2$`, table)
	require.Regexp(t, `(?m)^algorithm.adv_estimator +"bi_level_gae" +"gae" +"lite_gae" +"default_gae" +preset mask_gae_mask_loss_turnwise_reward_bi_level: line \d+$`, table)
	require.NotContains(t, table, "run.seed")
	all := decoded[[]config.Compared](t, "config", "show", "--diff", "--json", "system=lite", "env=sokoban")
	require.NotEmpty(t, all)
	refuse(t, `did you mean "TRICO"?`, "config", "show", "--diff", "--preset", "TRIKO")
}

func TestFilesAndOverridesChangePresets(t *testing.T) {
	in := testkit.File(t, "c.yaml",
		"algorithm: {high_level_gamma: 0.5}\nrollout_manager: {max_turns: 9, window_size: 9}\n")
	out := succeed(t, "config", "show", "--preset", "vagen_full", in, "rollout_manager.max_turns=7")
	for _, want := range []string{"adv_estimator: bi_level_gae", "high_level_gamma: 0.5", "max_turns: 7",
		"use_state_reward: true"} {
		require.Contains(t, out, want)
	}
	refuse(t, "set critic.use_reward_mask (preset vanilla_ppo: line 3, override 2)", "config", "check", "--preset",
		"vanilla_ppo", "env=x", "critic.use_reward_mask=false")
}
