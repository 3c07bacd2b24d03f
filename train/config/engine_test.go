package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/train/config"
)

// TestServersNeedSettingsThatTheyCanHonour.
func TestServersNeedSettingsThatTheyCanHonour(t *testing.T) {
	const r, e = "actor_rollout_ref.rollout.", "actor_rollout_ref.rollout.engine."
	base := []string{"env=x", r + "name=vllm", e + "addresses=[http://h:8000, http://i:8000]"}
	c, err := config.Load("", base...)
	require.NoError(t, err)
	require.True(t, c.UsesEngine())
	require.NotContains(t, warnings(c), "in this process")
	for set, want := range map[string]string{
		r + "name=xla":                     "rollout.name is xla, must be vllm or sglang",
		r + "name=hf":                      "rollout.name is hf, must be vllm or sglang",
		e + "addresses=[http://u:pw@h:1]":  "without credentials",
		e + "addresses=[h:1]":              "not a URL",
		e + "addresses=['http://h:1?a=b']": "not a URL",
		e + "mixed_versions=correct":       "rollout_is is null",
		e + "mixed_versions=mix":           "mixed_versions",
		e + "timeout=0":                    "timeout is 0",
		e + "start_timeout=-1":             "start_timeout is -1",
		e + "outage_timeout=-1":            "outage_timeout is -1",
		e + "attempts=0":                   "attempts",
		e + "max_in_flight=0":              "max_in_flight",
		e + "eject_after=0":                "eject_after",
		e + "check_responses=-1":           "check_responses",
		e + "check_limit=-1":               "check_limit",
		r + "top_p=0.9":                    "log-probs of the limited distribution",
		r + "top_k=5":                      "log-probs of the limited distribution",
		r + "thinking_token_budget=5":      "cannot insert the closing tag",
	} {
		_, err := config.Load("", append(base, set)...)
		require.ErrorIs(t, err, config.ErrConfig, set)
		require.ErrorContains(t, err, want, set)
		require.NotContains(t, err.Error(), "pw", set)
	}
	_, err = config.Load("", append(base, e+"mixed_versions=correct", "algorithm.rollout_correction.rollout_is=token", r+
		"val_kwargs.top_p=0.9")...)
	require.NoError(t, err)
}

// TestSettingsOfServersNeedServers: without addresses they would have no effect.
func TestSettingsOfServersNeedServers(t *testing.T) {
	for _, set := range []string{"model=m", "api_key_env=K", "timeout=1", "sync_timeout=1", "attempts=1",
		"max_in_flight=1", "eject_after=1", "start_timeout=1", "outage_timeout=1",
		"mixed_versions=keep", "sync_dir=/d", "server_sync_dir=/d", "check_responses=1", "check_limit=1"} {
		_, err := config.Load("", "env=x", "actor_rollout_ref.rollout.name=vllm", "actor_rollout_ref.rollout.engine."+set)
		require.ErrorContains(t, err, "actor_rollout_ref.rollout.engine.addresses is empty", set)
	}
}
