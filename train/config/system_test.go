package config_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

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
	require.Equal(t, []any{"gae", true, "attention", 0.001, 0.0, 0.7, false}, []any{c.Algorithm.Estimator, c.Algorithm.KLInReward, c.Algorithm.KLMask,
		c.Agent.Actor.Entropy, c.Agent.Actor.ClipDual, c.Agent.Rollout.Val.Temperature, c.Agent.Actor.Loss.ClampRatio})
	c = load("system=lite", "algorithm.adv_estimator=gae")
	require.Equal(t, []any{"lite_gae", false, 0.0, 3.0, 0.0, true}, []any{c.Algorithm.Estimator, c.Algorithm.KLInReward, c.Agent.Actor.Entropy,
		c.Agent.Actor.ClipDual, c.Agent.Rollout.Val.Temperature, c.Agent.Actor.Loss.ClampRatio})
	c = load("system=lite", "algorithm.adv_estimator=grpo", "rollout_manager.n_trajectory=8")
	require.Equal(t, []any{"lite_grpo", "none"}, []any{c.Algorithm.Estimator, c.Critic.Kind})
	require.Equal(t, "default_gae", load("system=next").Algorithm.Estimator)
	require.Equal(t, "trajectory_bi_level_gae", load("system=next", "algorithm.adv_estimator=bi_level_gae", "algorithm.bi_level_mix=0.5").Algorithm.Estimator)
	require.Equal(t, config.Default().Algorithm, load("system=null").Algorithm)

	_, err := config.Load("", "env=x", "system=full")
	require.ErrorContains(t, err, `system is "full", must be one of`)
	d := config.Default()
	require.ErrorContains(t, d.Override("system=lite"), `system is "lite", but the configuration was loaded with the defaults of ""`)
	require.Equal(t, config.Default(), d)
	d.Env.Name, d.System = "x", "lite"
	require.ErrorContains(t, d.Validate(), "algorithm.adv_estimator is gae, but system is lite: set it to lite_gae")
}

// TestPresetsNameTheirSystem, so that what stands on them has the same meaning with
// and without a preset.
func TestPresetsNameTheirSystem(t *testing.T) {
	for _, p := range config.Presets() {
		c, err := config.Source{Preset: p.Name, Overrides: []string{"env=x"}}.Load()
		require.NoError(t, err, p.Name)
		require.NotEmpty(t, c.System, p.Name)
		require.Empty(t, warnings(c), p.Name)
		raw, err := c.YAML()
		require.NoError(t, err)
		again, err := config.Load(traintest.WriteFile(t, string(raw)))
		require.NoError(t, err, p.Name)
		same, err := again.YAML()
		require.NoError(t, err)
		require.Equal(t, string(raw), string(same), p.Name)
	}
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
	for _, want := range []string{"trainer.concat_multi_turn", "algorithm.adv_estimator is gae (lite: lite_gae)", "clip_ratio_c is 0.0 (lite: 3.0)", "val_kwargs.temperature is 1.0 (lite: 0.0)", "set system: lite"} {
		require.Contains(t, lite, want)
	}
	legacy := load("rollout_manager.use_gae_mask=true", "algorithm.kl_ctrl.kl_coef=0.001")
	for _, want := range []string{"algorithm.use_kl_in_reward is false (legacy: true)", "set system: legacy"} {
		require.Contains(t, legacy, want)
	}
	require.NotContains(t, legacy, "rollout_manager.use_gae_mask is", "what was given does not differ")
	require.Empty(t, load("trainer.concat_multi_turn=true", "system=null"))
	require.Empty(t, load("rollout_manager.max_turns=3", "rollout_manager.n_trajectory=2"), "keys that this library's users set, too")
}
