package config_test

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/builtin"
	"vagen/internal/traintest"
	"vagen/reward/judge"
	"vagen/train/config"
)

// paidPresets are the presets that reward statements about the state.
func paidPresets(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, p := range config.Presets() {
		c, err := config.Source{Preset: p.Name, Overrides: []string{"env.name=sokoban"}}.Load()
		require.NoError(t, err)
		if c.Env.Config["use_state_reward"] == true || c.Env.Config[judge.Key] != nil {
			out = append(out, p.Name)
		}
	}
	require.Contains(t, out, "vagen_full")
	return out
}

// TestAFileAddsToAPresetsMapAsOverridesDo: entry by entry, and null removes one.
func TestAFileAddsToAPresetsMapAsOverridesDo(t *testing.T) {
	load := func(yaml string, overrides ...string) map[string]any {
		t.Helper()
		s := config.Source{Preset: "vagen_full", Overrides: append(overrides, "env.name=sokoban")}
		if yaml != "" {
			s.Path = traintest.WriteFile(t, yaml)
		}
		c, err := s.Load()
		require.NoError(t, err)
		return c.Env.Config
	}
	preset := load("")
	want := maps.Clone(preset)
	want["max_steps"] = uint64(9)
	require.Equal(t, want, load("env: {config: {max_steps: 9}}"))
	require.Equal(t, want, load("env.config.max_steps: 9"))
	require.Equal(t, want, load("", "env.config.max_steps=9"))
	require.Equal(t, want, load("", "env.config={max_steps: 9}"))
	require.Equal(t, preset, load("", "env.config={}"))

	delete(want, "render_mode")
	require.Equal(t, want, load("env: {config: {max_steps: 9, render_mode: null}}"))
	require.Equal(t, want, load("", "env.config.max_steps=9", "env.config.render_mode=null"))
	require.Equal(t, map[string]any{"max_steps": uint64(9)}, load("env.config: null\nenv.config.max_steps: 9"),
		"all of a preset's options")
	require.Equal(t, map[string]any{"max_steps": uint64(9)}, load("env.config: null", "env.config.max_steps=9"))
	require.Equal(t, preset, load(""), "the preset stays as it is")
}

// TestEveryPresetsStateRewardCanGetAJudge by a block in a file or an override, and the
// environment accepts the result.
func TestEveryPresetsStateRewardCanGetAJudge(t *testing.T) {
	const block = "{state_estimation: {enable: true, reward: 0.25}, scorer: judge, judge_base_url: 'http://127.0.0.1:1/v1', judge_model: m}"
	registry := func(asked *[]string) *env.Registry {
		return builtin.RegistryWith(func(b *judge.StateReward) (judge.Completer, error) {
			*asked = append(*asked, b.JudgeURL+" "+b.JudgeModel)
			return nil, nil
		})
	}
	for _, preset := range paidPresets(t) {
		for _, s := range []config.Source{
			{Preset: preset, Overrides: []string{"env.config.state_reward=" + block}},
			{Preset: preset, Overrides: []string{"env.config={state_reward: " + block + "}"}},
			{Preset: preset, Path: traintest.WriteFile(t, "env: {config: {state_reward: "+block+"}}")},
		} {
			s.Overrides = append(s.Overrides, "env.name=sokoban")
			c, err := s.Load()
			require.NoError(t, err, preset)
			var asked []string
			e, err := registry(&asked).New("sokoban", c.Env.Config)
			require.NoError(t, err, preset)
			require.IsType(t, env.Judged{}, e)
			require.NoError(t, e.Close())
			require.Equal(t, []string{"http://127.0.0.1:1/v1 m"}, asked)
		}
	}
	c, err := config.Load("", "env.name=sokoban", "env.config.state_reward="+block, "env.config.use_state_reward=true")
	require.NoError(t, err)
	_, err = builtin.Registry().New("sokoban", c.Env.Config)
	require.ErrorContains(t, err, "both given", "in one source the two contradict each other")
}

// TestSingleSettingsOfABlockChangeAPresetsStateReward: what the preset pays for stays, also
// where it is not written as a block.
func TestSingleSettingsOfABlockChangeAPresetsStateReward(t *testing.T) {
	section := func(reward float64) map[string]any { return map[string]any{"enable": true, "reward": reward} }
	load := func(preset, name string, overrides ...string) map[string]any {
		t.Helper()
		c, err := config.Source{Preset: preset, Overrides: append(overrides, "env.name="+name)}.Load()
		require.NoError(t, err)
		e, err := builtin.RegistryWith(func(*judge.StateReward) (judge.Completer, error) {
			return nil, nil
		}).New(name, c.Env.Config)
		require.NoError(t, err)
		require.NoError(t, e.Close())
		block, _ := c.Env.Config[judge.Key].(map[string]any)
		return block
	}
	asked := []string{"env.config.state_reward.scorer=judge",
		"env.config.state_reward.judge_base_url=http://127.0.0.1:1/v1", "env.config.state_reward.judge_model=m"}
	want := map[string]any{"scorer": "judge", "judge_base_url": "http://127.0.0.1:1/v1", "judge_model": "m",
		"score_base": 0.0, "credit_site": "turn_end", "guard": "off",
		"state_estimation": section(0.5), "transition_prediction": section(0.5)}
	require.Equal(t, want, load("vagen_full", "frozenlake", asked...))
	want["scoring"], want["stock_phrases"] = "exact_matches", map[string]any{"top": 0}
	require.Equal(t, want, load("vagen_full", "sokoban", asked...))
	require.Equal(t, 0.25, load("vagen_full", "sokoban",
		"env.config.state_reward.stock_phrases.penalty=0.25")["stock_phrases"].(map[string]any)["penalty"])

	next := load("next_bi_level", "sokoban")
	changed := load("next_bi_level", "sokoban", "env.config.state_reward.scorer=rules")
	require.Equal(t, "rules", changed["scorer"])
	changed["scorer"] = next["scorer"]
	require.Equal(t, next, changed)

	c, err := config.Source{Preset: "vagen_full",
		Overrides: []string{"data.train_files=[a.yaml]", "data.val_files=[b.yaml]",
			"env.config.state_reward.scorer=exact"}}.Load()
	require.NoError(t, err)
	require.Equal(t, section(0.5), c.EnvOptions("frozenlake")[judge.Key].(map[string]any)["state_estimation"])
	c, err = config.Load("", "env.name=sokoban", "env.config.state_reward.scorer=rules")
	require.NoError(t, err)
	require.Contains(t, warnings(c), "it rewards no statements: enable state_estimation")
}

// TestEveryPresetsStateRewardCanBeSwitchedOff.
func TestEveryPresetsStateRewardCanBeSwitchedOff(t *testing.T) {
	for _, preset := range paidPresets(t) {
		for _, off := range []string{"env.config.state_reward=null", "env.config.state_reward=false",
			"env.config.state_reward.enabled=false", "env.config.use_state_reward=false"} {
			c, err := config.Source{Preset: preset, Overrides: []string{"env.name=sokoban", off}}.Load()
			require.NoError(t, err, off)
			e, err := builtin.Registry().New("sokoban", c.Env.Config)
			require.NoError(t, err, off)
			claims, ok := e.(interface{ Claiming() bool })
			require.True(t, ok && !claims.Claiming(), "%s of %s", off, preset)
			require.NoError(t, e.Close())
		}
	}
}
