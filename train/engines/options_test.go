package engines

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/policy/engine"
	"vagen/train/config"
)

// TestEveryKeyOfServersIsHonoured: each one changes the options of the fleet, the folder or
// the comparison.
func TestEveryKeyOfServersIsHonoured(t *testing.T) {
	const key = "actor_rollout_ref.rollout.engine."
	t.Setenv("VAGEN_TEST_KEY", "key of K")
	base := []string{"env=x", "actor_rollout_ref.rollout.name=vllm", key + "addresses=[http://h:1]"}
	for set, got := range map[string]func(o engine.Options) bool{
		"addresses=[http://i:2]":     func(o engine.Options) bool { return strings.Join(o.Addresses, " ") == "http://i:2" },
		"model=m":                    func(o engine.Options) bool { return o.Model == "m" },
		"api_key_env=VAGEN_TEST_KEY": func(o engine.Options) bool { return o.Key == "key of K" },
		"timeout=1.5":                func(o engine.Options) bool { return o.Timeout == 1500*time.Millisecond },
		"sync_timeout=2":             func(o engine.Options) bool { return o.SyncTimeout == 2*time.Second },
		"start_timeout=8":            func(o engine.Options) bool { return o.Startup == 8*time.Second },
		"outage_timeout=3":           func(o engine.Options) bool { return o.Outage == 3*time.Second },
		"attempts=4":                 func(o engine.Options) bool { return o.Attempts == 4 },
		"max_in_flight=5":            func(o engine.Options) bool { return o.InFlight == 5 },
		"eject_after=7":              func(o engine.Options) bool { return o.EjectAfter == 7 },
		"mixed_versions=keep":        func(o engine.Options) bool { return o.Mixed == engine.MixedKeep },
	} {
		c, err := config.Load("", append(base, key+set)...)
		require.NoError(t, err, set)
		o, err := options(&c)
		require.NoError(t, err)
		require.True(t, got(o), set)
		c, err = config.Load("", base...)
		require.NoError(t, err)
		o, err = options(&c)
		require.NoError(t, err)
		require.False(t, got(o), "%s is the default", set)
	}
	dir := t.TempDir()
	c, err := config.Load("", append(base, key+"sync_dir="+dir+"/own", key+"server_sync_dir=/mnt/own",
		"actor_rollout_ref.rollout.name=sglang")...)
	require.NoError(t, err)
	o, err := options(&c)
	require.NoError(t, err)
	require.Equal(t, engine.SGLang, o.Kind)
	l := &Learner{config: &c}
	require.NoError(t, l.openFolder(dir))
	require.Equal(t, []string{dir + "/own", "/mnt/own"}, []string{l.dir, l.shared})
	left := []string{filepath.Join(dir, "own", "vagen-0-v1"), filepath.Join(dir, "engine", "vagen-0-v1.tmp"),
		filepath.Join(dir, "engine", "mine")}
	for _, name := range left {
		require.NoError(t, os.MkdirAll(name, 0o755))
	}
	require.NoError(t, l.openFolder(dir))
	c.Agent.Rollout.Engine.SyncDir, c.Agent.Rollout.Engine.ServerDir = "", ""
	require.NoError(t, l.openFolder(dir))
	require.DirExists(t, left[0], "others may use it")
	require.NoDirExists(t, left[1], "of an earlier process of the run")
	require.DirExists(t, left[2])
	require.Equal(t, []string{dir + "/engine", dir + "/engine"}, []string{l.dir, l.shared})
	c.Agent.Rollout.Engine.SyncDir = "/proc/none"
	require.ErrorIs(t, l.openFolder(dir), config.ErrConfig)
	defaults, published := engine.DefaultOptions(), config.Default().Agent.Rollout.Engine
	require.Equal(t, []any{defaults.Timeout.Seconds(), defaults.SyncTimeout.Seconds(), defaults.Startup.Seconds(),
		defaults.Outage.Seconds(), defaults.Attempts, defaults.InFlight, defaults.EjectAfter, string(defaults.Mixed)},
		[]any{published.Timeout, published.SyncTimeout, published.Startup, published.Outage, published.Attempts,
			published.InFlight, published.EjectAfter, published.Mixed})
}
