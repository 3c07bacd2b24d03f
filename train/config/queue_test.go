package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/train/config"
)

// TestSettingsOfQueuesAreChecked, without showing what may be a secret.
func TestSettingsOfQueuesAreChecked(t *testing.T) {
	const k = "run.queue_options."
	for want, overrides := range map[string][]string{
		"contains credentials":        {"run.queue=nats://me:geheim@h:4222"},
		"must be of the form nats://": {"run.queue=http://h"},
		"all must be of one kind":     {"run.queue=ws://h,nats://g"},
		"without path":                {"run.queue=nats://h/path"},
		"letters, digits":             {"run.queue=embedded", k + "name=a.b"},
		"must be host:port":           {"run.queue=embedded", k + "listen=nowhere"},
		"must be in [0.1":             {"run.queue=embedded", k + "lease=0"},
		"must be positive":            {"run.queue=embedded", k + "tries=0"},
		"which knows only":            {"run.queue=embedded", k + "creds=/c"},
		"choose one way":              {"run.queue=nats://h:1", k + "creds=/c", k + "key_env=K"},
		"only workers need it":        {"run.queue=embedded", k + "tls_ca=/c"},
		"the variable with the":       {"run.queue=embedded", k + "user=u"},
		"must both be set":            {"run.queue=embedded", k + "tls_cert=/c"},
		"none waits for others":       {"run.queue=embedded", "run.patience=1"},
		"every episode is played":     {"run.queue=embedded", "run.waves=2"},
		"run.queue is null":           {k + "name=q"},
		"is the URL of a server":      {"run.queue=nats://h:1", k + "listen=127.0.0.1:1"},
	} {
		_, err := config.Load("", append([]string{"env=frozenlake"}, overrides...)...)
		require.ErrorIs(t, err, config.ErrConfig, want)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "geheim")
	}
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
