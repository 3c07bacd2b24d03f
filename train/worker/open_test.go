package worker

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/train/config"
	"vagen/train/queue"
	"vagen/train/queue/embedded"
)

// TestAQueueThatCannotBeUsedIsRefusedBeforeTraining: nothing is written, and no secret shown.
func TestAQueueThatCannotBeUsedIsRefusedBeforeTraining(t *testing.T) {
	c := config.Default()
	c.Run.Queue, c.Run.QueueOptions.Listen = config.QueueEmbedded, "127.0.0.1:0"
	o := &Trainer{Config: &c}
	require.ErrorContains(t, o.Check(t.Context()), "engine.addresses is empty")
	c.Agent.Rollout.Name, c.Agent.Rollout.Engine.Addresses = "vllm", []string{"http://h:1"}
	c.Agent.Rollout.Engine.Startup = 0 // nothing listens there
	o.Dir = filepath.Join(t.TempDir(), "run")
	require.ErrorContains(t, o.Check(t.Context()), "must set Options.QueueServer")
	o.QueueServer = embedded.Start
	require.NoError(t, o.Check(t.Context()))
	require.NoDirExists(t, o.Dir)

	c.Run.QueueOptions.KeyEnv = "VAGEN_TEST_KEY"
	err := o.Check(t.Context())
	testkit.Error(t, err, config.ErrConfig, "VAGEN_TEST_KEY is not set")

	server := queue.DefaultOptions()
	server.Listen, server.Dir, server.Run, server.Key = "127.0.0.1:0", t.TempDir(), "other", "hunter2hunter2"
	server.Server = embedded.Start
	q, err := queue.Open(t.Context(), server)
	require.NoError(t, err)
	defer q.Close()
	c.Run.Queue = q.URL()
	for key, want := range map[string]error{"swordfish": queue.ErrAccess, "hunter2hunter2": queue.ErrOtherRun} {
		t.Setenv("VAGEN_TEST_KEY", key)
		err = o.Check(t.Context())
		require.ErrorIs(t, err, config.ErrConfig)
		require.ErrorIs(t, err, want)
		require.NotContains(t, err.Error(), key)
	}
	t.Setenv("VAGEN_TEST_KEY", server.Key)
	c.Run.QueueOptions.Name = "mine"
	require.NoError(t, o.Check(t.Context()))
	require.NoDirExists(t, o.Dir)
	c.Run.Queue = "nats://127.0.0.1:1"
	require.ErrorIs(t, o.Check(t.Context()), queue.ErrServer)
	c.Run.Queue = ""
	require.NoError(t, o.Check(t.Context()))
}

// TestEveryKeyOfQueuesIsHonoured: each one changes the options of the queue.
func TestEveryKeyOfQueuesIsHonoured(t *testing.T) {
	convert := func(overrides ...string) queue.Options {
		c := config.Default()
		for _, set := range append([]string{"run.queue=nats://h:1"}, overrides...) {
			require.NoError(t, c.Override(set))
		}
		o := &Trainer{Config: &c, Dir: "dir"}
		q, err := o.options()
		require.NoError(t, err)
		return q
	}
	t.Setenv("VAGEN_TEST_KEY", "value of K")
	published := convert()
	defaults := queue.DefaultOptions()
	defaults.URL, defaults.Dir, defaults.Run = "nats://h:1", published.Dir, published.Run
	require.Equal(t, defaults, published)
	for set, change := range map[string]func(q *queue.Options){
		"name=n": func(q *queue.Options) { q.Name = "n" }, "listen=127.0.0.1:9": func(q *queue.Options) {
			q.Listen = "127.0.0.1:9"
		},
		"lease=1.5": func(q *queue.Options) { q.Lease = 1500e6 }, "no_worker_timeout=0.5": func(q *queue.Options) {
			q.NoWorkers = 500e6
		}, "tries=9": func(q *queue.Options) { q.Tries = 9 }, "sync=true": func(q *queue.Options) { q.Sync = true },
		"creds=/c": func(q *queue.Options) { q.Creds = "/c" }, "user=u": func(q *queue.Options) { q.User = "u" },
		"key_env=VAGEN_TEST_KEY": func(q *queue.Options) { q.Key = "value of K" },
		"tls_ca=/a":              func(q *queue.Options) { q.CA = "/a" }, "tls_cert=/b": func(q *queue.Options) { q.Cert = "/b" },
		"tls_key=/k": func(q *queue.Options) { q.CertKey = "/k" },
	} {
		want := published
		change(&want)
		require.Equal(t, want, convert("run.queue_options."+set), set)
	}
}
