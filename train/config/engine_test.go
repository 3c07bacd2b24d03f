package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/train/config"
)

func TestServersAreUsedAndTheirCredentialsAreNotShown(t *testing.T) {
	const r, e = "actor_rollout_ref.rollout.", "actor_rollout_ref.rollout.engine."
	base := []string{"env=x", r + "name=vllm", e + "addresses=[http://h:8000, http://i:8000]"}
	c, err := config.Load("", base...)
	require.NoError(t, err)
	require.True(t, c.UsesEngine())
	require.NotContains(t, warnings(c), "in this process")
	_, err = config.Load("", append(base, e+"addresses=[http://u:pw@h:1]")...)
	require.ErrorContains(t, err, "without credentials")
	require.NotContains(t, err.Error(), "pw")
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
