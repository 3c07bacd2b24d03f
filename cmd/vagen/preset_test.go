package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/train/config"
)

func TestPresetsAreListedShownAndChecked(t *testing.T) {
	var all []config.Preset
	require.NoError(t, json.Unmarshal([]byte(succeed(t, "config", "presets", "--json")), &all))
	table := succeed(t, "config", "presets")
	for _, p := range all {
		require.NotEmpty(t, p.About)
		require.Contains(t, table, p.Name)
		shown := succeed(t, "config", "show", "--preset", p.Name)
		require.Equal(t, shown, succeed(t, "config", "show", file(t, p.Name+".yaml", shown)), "the output is the preset")
		require.Contains(t, succeed(t, "config", "check", "--preset", p.Name, "env=sokoban"), "preset "+p.Name+" is valid")
		for _, other := range p.Also {
			require.Equal(t, shown, succeed(t, "config", "show", "--preset", other))
		}
	}
	require.Contains(t, refuse(t, "config", "show", "--preset", "vagen_ful"),
		`unknown preset "vagen_ful", did you mean "vagen_full"?`)
	require.Contains(t, refuse(t, "config", "check", "--preset", "_legacy", "env=sokoban"), "unknown preset")
	require.Contains(t, refuse(t, "train"), "a configuration is needed")
	require.Equal(t, succeed(t, "config", "show"), succeed(t, "config", "defaults"))
}

func TestDifferencesFromTheDefaultsAreShownWithTheirOrigin(t *testing.T) {
	table := succeed(t, "config", "show", "--diff", "--preset", "TRICO", "env=sokoban", "data.train_batch_size=7")
	require.Regexp(t, `(?m)^key +value +default +legacy +lite +next +from$`, table)
	require.Regexp(t, `(?m)^data.train_batch_size +7 +1024 +128 +128 +override 2$`, table)
	require.Regexp(t, `(?m)^algorithm.adv_estimator +"bi_level_gae" +"gae" +"lite_gae" +"default_gae" +preset mask_gae_mask_loss_turnwise_reward_bi_level: line \d+$`, table)
	require.NotContains(t, table, "run.seed")
	var all []config.Compared
	require.NoError(t, json.Unmarshal([]byte(succeed(t, "config", "show", "--diff", "--json", "system=lite",
		"env=sokoban")), &all))
	require.NotEmpty(t, all)
	require.Contains(t, refuse(t, "config", "show", "--diff", "--preset", "TRIKO"), `did you mean "TRICO"?`)
}

func TestFilesAndOverridesChangePresets(t *testing.T) {
	in := file(t, "c.yaml", "algorithm: {high_level_gamma: 0.5}\nrollout_manager: {max_turns: 9, window_size: 9}\n")
	out := succeed(t, "config", "show", "--preset", "vagen_full", in, "rollout_manager.max_turns=7")
	for _, want := range []string{"adv_estimator: bi_level_gae", "high_level_gamma: 0.5", "max_turns: 7",
		"use_state_reward: true"} {
		require.Contains(t, out, want)
	}
	errs := refuse(t, "config", "check", "--preset", "vanilla_ppo", "env=x", "critic.use_reward_mask=false")
	require.Contains(t, errs, "set critic.use_reward_mask (preset vanilla_ppo: line 3, override 2)")
}
