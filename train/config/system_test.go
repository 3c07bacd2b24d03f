package config_test

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
	"vagen/internal/traintest"
	"vagen/train/config"
)

// warnings are the notes of a configuration that are logged at level warn.
func warnings(c config.Config) string {
	var b strings.Builder
	c.LogNotes(slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelWarn})))
	return b.String()
}

// TestSystemGivesEachGenerationItsDefaultsAndNames: numbers are those of the original
// configuration files, see spec of the keys.
func TestSystemGivesEachGenerationItsDefaultsAndNames(t *testing.T) {
	load := func(overrides ...string) config.Config {
		t.Helper()
		c, err := config.Load("", append(overrides, "env=x", "actor_rollout_ref.actor.ppo_mini_batch_size=32")...)
		require.NoError(t, err)
		require.Empty(t, warnings(c))
		return c
	}
	c := load("system=legacy", "actor_rollout_ref.rollout.temperature=0.7")
	require.Equal(t, []any{"gae", true, "attention", 0.001, 0.0, 0.7, false},
		[]any{c.Algorithm.Estimator, c.Algorithm.KLInReward, c.Algorithm.KLMask,
			c.Agent.Actor.Entropy, c.Agent.Actor.ClipDual, c.Agent.Rollout.Val.Temperature, c.Agent.Actor.Loss.Clamp})
	c = load("system=lite", "algorithm.adv_estimator=gae")
	require.Equal(t, []any{"lite_gae", false, 0.0, 3.0, 0.0, true},
		[]any{c.Algorithm.Estimator, c.Algorithm.KLInReward, c.Agent.Actor.Entropy,
			c.Agent.Actor.ClipDual, c.Agent.Rollout.Val.Temperature, c.Agent.Actor.Loss.Clamp})
	c = load("system=lite", "algorithm.adv_estimator=grpo", "rollout_manager.n_trajectory=8")
	require.Equal(t, []any{"lite_grpo", "none"}, []any{c.Algorithm.Estimator, c.Critic.Kind})
	require.Equal(t, "default_gae", load("system=next").Algorithm.Estimator)
	require.Equal(t, "trajectory_bi_level_gae",
		load("system=next", "algorithm.adv_estimator=bi_level_gae", "algorithm.bi_level_mix=0.5").Algorithm.Estimator)
	require.Equal(t, config.Default().Algorithm, load("system=null").Algorithm)

	_, err := config.Load("", "env=x", "system=full")
	require.ErrorContains(t, err, `system is "full", must be one of`)
	d := config.Default()
	require.ErrorContains(t, d.Override("system=lite"),
		`system is "lite", but the configuration was loaded with the defaults of ""`)
	require.Equal(t, config.Default(), d)
	d.Env.Name, d.System = "x", "lite"
	require.ErrorContains(t, d.Validate(), "algorithm.adv_estimator is gae, but system is lite: set it to lite_gae")
}

// TestLegacysCriticSkipsNoStep, unless it is a head on the policy, which has no limit of its own.
func TestLegacysCriticSkipsNoStep(t *testing.T) {
	for kind, want := range map[string]any{"separate": 0.0, "shared": nil, "none": 0.0} {
		set := []string{"system=legacy", "env=x", "critic.kind=" + kind}
		if kind == "none" {
			set = append(set, "algorithm.adv_estimator=grpo", "rollout_manager.n_trajectory=2")
		}
		c, err := config.Load("", set...)
		require.NoError(t, err, kind)
		require.Equal(t, 1000.0, c.Agent.Actor.NormLimit)
		if got := c.Critic.NormLimit; want == nil {
			require.Nil(t, got, kind)
		} else {
			require.Equal(t, want, *got, kind)
		}
		raw, err := c.YAML()
		require.NoError(t, err)
		again, err := config.Load(traintest.WriteFile(t, string(raw)))
		require.NoError(t, err, kind)
		require.Equal(t, c.Critic, again.Critic, kind)
	}
	_, err := config.Load("", "system=legacy", "env=x", "critic.kind=shared", "critic.grad_norm_threshold=5")
	require.ErrorContains(t, err, "critic.kind is shared: a shared critic is updated together with the policy")
	require.NotContains(t, err.Error(), "\n", "one mistake, one line")
}

// TestKeysOfAGenerationWarnOfItsDefaults: without system such keys are read with the
// defaults of this library, which is not what their author ran.
func TestKeysOfAGenerationWarnOfItsDefaults(t *testing.T) {
	load := func(overrides ...string) string {
		t.Helper()
		c, err := config.Load("", append(overrides, "env=x")...)
		require.NoError(t, err)
		return warnings(c)
	}
	lite := load("trainer.concat_multi_turn=true", "algorithm.adv_estimator=gae")
	for _, want := range []string{"trainer.concat_multi_turn", "algorithm.adv_estimator is gae (lite: lite_gae)",
		"clip_ratio_c is 0.0 (lite: 3.0)", "val_kwargs.temperature is 1.0 (lite: 0.0)", "set system: lite"} {
		require.Contains(t, lite, want)
	}
	legacy := load("rollout_manager.use_gae_mask=true", "algorithm.kl_ctrl.kl_coef=0.001")
	for _, want := range []string{"algorithm.use_kl_in_reward is false (legacy: true)", "set system: legacy"} {
		require.Contains(t, legacy, want)
	}
	require.NotContains(t, legacy, "rollout_manager.use_gae_mask is", "what was given does not differ")
	require.Empty(t, load("trainer.concat_multi_turn=true", "system=null"))
	require.Empty(t, load("rollout_manager.max_turns=3", "rollout_manager.n_trajectory=2"),
		"keys that this library's users set, too")
}

// TestEveryKeyWithDifferentDefaultsFollowsTheGeneration.
func TestEveryKeyWithDifferentDefaultsFollowsTheGeneration(t *testing.T) {
	for system, want := range golden.Table[map[string]map[string]any](t, "generations.yaml") {
		s := config.Source{Overrides: []string{"system=" + system, "env=sokoban"}}
		if system == "next" { // its default estimator does not read the keys of bi_level_gae
			s.Overrides = append(s.Overrides, "algorithm.adv_estimator=bi_level_gae")
		}
		all, err := s.Compare()
		require.NoError(t, err)
		for key, value := range want {
			at := slices.IndexFunc(all, func(d config.Compared) bool { return d.Key == key })
			if at < 0 { // it is this library's default in all generations
				s, ok := config.Explain(key)
				require.True(t, ok)
				require.Equal(t, config.ValueText(value), config.ValueText(s.Default), "%s: %s", system, key)
				continue
			}
			require.Equal(t, config.ValueText(value), config.ValueText(all[at].Value), "%s: %s", system, key)
		}
	}
}

// TestComparisonsShowWhatDiffersAndWhy: the value, the defaults of this library and of each
// generation, and what gave the value.
func TestComparisonsShowWhatDiffersAndWhy(t *testing.T) {
	find := func(s config.Source, key string) config.Compared {
		t.Helper()
		all, err := s.Compare()
		require.NoError(t, err)
		at := slices.IndexFunc(all, func(d config.Compared) bool { return d.Key == key })
		require.GreaterOrEqual(t, at, 0, key)
		return all[at]
	}
	s := config.Source{Preset: "lite_ppo", Overrides: []string{"env=sokoban", "data.train_batch_size=7"}}
	d := find(s, "data.train_batch_size")
	require.Equal(t, config.Compared{Key: "data.train_batch_size", Value: 7, Default: 1024,
		Systems: map[string]any{"lite": 128, "next": 128}, From: "override 2"}, d)
	d = find(s, "algorithm.adv_estimator")
	require.Equal(t, []any{"lite_gae", "gae", map[string]any{"lite": "lite_gae", "next": "default_gae"}},
		[]any{d.Value, d.Default, d.Systems})
	require.Equal(t, "preset lite_ppo: line 3", d.From)
	d = find(config.Source{Overrides: []string{"env=sokoban"}}, "algorithm.use_kl_in_reward")
	require.Equal(t, []any{false, map[string]any{"legacy": true}, ""}, []any{d.Value, d.Systems, d.From})
}

// TestAPresetBesideAnotherGenerationWarns.
func TestAPresetBesideAnotherGenerationWarns(t *testing.T) {
	c, err := config.Source{Preset: "vagen_base", Overrides: []string{"env=sokoban", "system=lite"}}.Load()
	require.NoError(t, err)
	require.Contains(t, warnings(c), "the preset vagen_base belongs to legacy; what it does not set follows lite: ")
	require.Contains(t, warnings(c), "clip_ratio_c")
	require.NotContains(t, warnings(c), "max_prompt_length")
	c, err = config.Source{Preset: "vagen_base", Overrides: []string{"env=sokoban", "system=legacy"}}.Load()
	require.NoError(t, err)
	require.Empty(t, warnings(c))
}
