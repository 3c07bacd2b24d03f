package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/train/config"
)

// TestSettingsOfQueuesAreChecked, without showing what may be a secret.
func TestSettingsOfQueuesAreChecked(t *testing.T) {
	_, err := config.Load("", "env=frozenlake", "run.queue=nats://me:geheim@h:4222")
	testkit.Error(t, err, config.ErrConfig, "contains credentials")
	require.NotContains(t, err.Error(), "geheim")
	c, err := config.Load("", "env=frozenlake", "run.queue=tls://a:1,tls://b:1", "run.workers=4")
	require.NoError(t, err)
	require.NotEmpty(t, c.Notes, "run.workers has no effect")
	sft := c.Supervised()
	require.Empty(t, sft.Run.Queue, "no episode is played")
	d := config.Default()
	d.Run.Queue = "embedded"
	e := config.Default()
	require.Empty(t, config.Differences(&d, &e), "it changes no result")
}
