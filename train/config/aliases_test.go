package config_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/traintest"
	"vagen/train/config"
)

// TestAliasesFillTheOneFieldOfAFact from overrides and files, over what a layer below
// says; two names that disagree in one source are an error.
func TestAliasesFillTheOneFieldOfAFact(t *testing.T) {
	const bi = "algorithm.adv_estimator=bi_level_gae"
	c, err := config.Load("", "env=x", bi, "algorithm.gamma_turn=0.5")
	require.NoError(t, err)
	require.Equal(t, 0.5, c.Algorithm.TurnGamma)
	c, err = config.Load("", "env=x", "algorithm.adv_estimator=no_concat_gae", "trainer.concat_multi_turn=false")
	require.NoError(t, err)
	require.Equal(t, "no_concat", c.Trainer.Harness)
	c, err = config.Load(traintest.WriteFile(t, "trainer: {concat_multi_turn: true}"), "env=x", "trainer.harness=compact", "algorithm.adv_estimator=default_gae")
	require.NoError(t, err, "the later source counts")
	require.Equal(t, "compact", c.Trainer.Harness)

	_, err = config.Load("", "env=x", bi, "algorithm.gamma_turn=0.5", "algorithm.high_level_gamma=0.6")
	require.ErrorContains(t, err, "algorithm.gamma_turn is 0.5, but algorithm.high_level_gamma is 0.6 (override 4): they are two names of one setting")
	_, err = config.Load("", "env=x", "trainer.concat_multi_turn=maybe")
	require.ErrorContains(t, err, "trainer.concat_multi_turn is maybe, must be one of false, true")
}

// TestRunFilesWithAliasKeysLoad: config.yaml of older runs has every key, aliases too,
// null or with the value that counted.
func TestRunFilesWithAliasKeysLoad(t *testing.T) {
	c, err := config.Load("", "env=x", "algorithm.adv_estimator=bi_level_gae")
	require.NoError(t, err)
	raw, err := c.YAML()
	require.NoError(t, err)
	older := func(gamma, concat string) config.Config {
		text := regexp.MustCompile(`(?m)^( *)high_level_gamma: `).ReplaceAllString(string(raw), "${1}gamma_turn: "+gamma+"\n${0}")
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
