package config_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/traintest"
	"vagen/train/config"
)

// TestAliasesFillTheOneFieldOfAFact from overrides and files, and override earlier sources;
// two names with different values in one source are an error.
func TestAliasesFillTheOneFieldOfAFact(t *testing.T) {
	const bi = "algorithm.adv_estimator=bi_level_gae"
	c, err := config.Load("", "env=x", bi, "algorithm.gamma_turn=0.5")
	require.NoError(t, err)
	require.Equal(t, 0.5, c.Algorithm.TurnGamma)
	c, err = config.Load("", "env=x", "algorithm.adv_estimator=no_concat_gae", "trainer.concat_multi_turn=false")
	require.NoError(t, err)
	require.Equal(t, "no_concat", c.Trainer.Harness)
	c, err = config.Load(traintest.WriteFile(t, "trainer: {concat_multi_turn: true}"), "env=x", "trainer.harness=compact",
		"algorithm.adv_estimator=default_gae")
	require.NoError(t, err, "the later source counts")
	require.Equal(t, "compact", c.Trainer.Harness)

	_, err = config.Load("", "env=x", bi, "algorithm.gamma_turn=0.5", "algorithm.high_level_gamma=0.6")
	require.ErrorContains(t, err, "algorithm.gamma_turn is 0.5, but algorithm.high_level_gamma is 0.6 (override 4): they are two names of one setting")
	_, err = config.Load("", "env=x", "trainer.concat_multi_turn=maybe")
	require.ErrorContains(t, err, "trainer.concat_multi_turn is maybe, must be one of false, true")
}

// TestFlagsOfOtherSystemsLeaveNoTrace: three keys that are true or false set the value of
// another key when they are read. The configuration has no field for them, and a later
// source that gives the other key counts.
func TestFlagsOfOtherSystemsLeaveNoTrace(t *testing.T) {
	const model, sampling = "actor_rollout_ref.model.", "actor_rollout_ref.rollout.val_kwargs."
	load := func(file string, overrides ...string) (config.Config, error) {
		return config.Source{Path: traintest.WriteFile(t, file), Overrides: overrides, Unchecked: true}.Load()
	}
	for file, want := range map[string][]any{
		"{critic.enable: false}":                                                          {"none", "nothing", 1.},
		"{critic: {enable: false, kind: shared}}":                                         {"none", "nothing", 1.},
		"{critic: {enable: true, kind: shared}}":                                          {"shared", "nothing", 1.},
		"{" + model + "enable_gradient_checkpointing: true}":                              {"separate", "blocks", 1.},
		"{" + model + "enable_gradient_checkpointing: true, model.recompute: attention}":  {"separate", "attention", 1.},
		"{" + model + "enable_gradient_checkpointing: false, model.recompute: attention}": {"separate", "nothing", 1.},
		"{" + sampling + "do_sample: false, " + sampling + "temperature: 0.5}":            {"separate", "nothing", 0.},
		"{" + sampling + "do_sample: true, " + sampling + "temperature: 0.5}":             {"separate", "nothing", 0.5},
		"{" + sampling + "do_sample: null, critic.enable: null}":                          {"separate", "nothing", 1.},
	} {
		c, err := load(file)
		require.NoError(t, err, file)
		require.Equal(t, want, []any{c.Critic.Kind, c.Model.Recompute, c.Agent.Rollout.Val.Temperature}, file)
		raw, err := c.YAML()
		require.NoError(t, err)
		require.NotRegexp(t, `(?m)^  enable:|enable_gradient|^      do_sample`,
			regexp.MustCompile(`(?ms)^filter:.*?^\S`).ReplaceAllString(string(raw), ""))
	}
	c, err := load("{critic.enable: false}", "critic.kind=shared")
	require.NoError(t, err)
	require.Equal(t, "shared", c.Critic.Kind, "the later source counts")
	_, err = load("{critic.enable: maybe}")
	require.ErrorContains(t, err, "critic.enable is maybe, must be true or false")
	c, err = load("{}", "system=lite", "env=x", "algorithm.adv_estimator=grpo", "critic.enable=true")
	require.NoError(t, err)
	require.Equal(t, "separate", c.Critic.Kind, "it was asked for")
	raw, err := c.YAML()
	require.NoError(t, err)
	c, err = load(string(raw))
	require.NoError(t, err)
	require.Equal(t, "separate", c.Critic.Kind, "and is the run's when its file is read again")
	s, ok := config.Explain("critic.enable")
	require.True(t, ok)
	require.Equal(t, "alias", s.Kind)
}

// TestRunFilesWithAliasKeysLoad: config.yaml of older runs has every key, aliases too,
// null or with the value that counted.
func TestRunFilesWithAliasKeysLoad(t *testing.T) {
	c, err := config.Load("", "env=x", "algorithm.adv_estimator=bi_level_gae")
	require.NoError(t, err)
	raw, err := c.YAML()
	require.NoError(t, err)
	older := func(gamma, concat string) config.Config {
		text := regexp.MustCompile(`(?m)^( *)high_level_gamma: `).ReplaceAllString(string(raw), "${1}gamma_turn: "+gamma+
			"\n${0}")
		text = regexp.MustCompile(`(?m)^( *)harness: `).ReplaceAllString(text, "${1}concat_multi_turn: "+concat+"\n${0}")
		text = regexp.MustCompile(`(?m)^( *)thinking_open: `).ReplaceAllString(text, "${1}do_sample: null\n${0}")
		require.Contains(t, text, "do_sample: null")
		got, err := config.Load(traintest.WriteFile(t, text))
		require.NoError(t, err)
		return got
	}
	require.Equal(t, c.Algorithm, older("null", "null").Algorithm)
	got := older("0.5", "true")
	require.Equal(t, 0.5, got.Algorithm.TurnGamma)
	require.Equal(t, "concat", got.Trainer.Harness)
}
