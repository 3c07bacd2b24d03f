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
	_, err = config.Load("", "env=frozenlake", "run.queue=embedded", "run.queue_options.listen='0.0.0.0:4222'",
		"run.queue_options.creds=c", "run.queue_options.user=me", "run.queue_options.tls_cert=c",
		"run.queue_options.tls_ca=a")
	testkit.Error(t, err, config.ErrConfig,
		`run.queue_options.creds is "c", but run.queue_options.user or a key (run.queue_options.key_env) is set`,
		"run.queue_options.user is \"me\", but run.queue_options.key_env, the password, is not set (override 5)",
		`run.queue_options.tls_cert is "c" and run.queue_options.tls_key "": both must be set`,
		"run.queue_options.creds is \"c\", but an embedded server knows only", `run.queue_options.tls_ca is "a", but an`,
		`run.queue_options.listen is "0.0.0.0:4222", which other machines can reach`)
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
