package worker

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/train/config"
)

// TestRunsOfOtherReleasesArePlayed: the trainer's configuration may have keys that are aliases now, or that do not
// exist any more, as that of a run on disk (see train/run).
func TestRunsOfOtherReleasesArePlayed(t *testing.T) {
	c := config.Default()
	c.Agent.Actor.Optim.Style = "cosine"
	today, err := c.YAML()
	require.NoError(t, err)
	alias := strings.Replace(string(today), "warmup_style: cosine", "lr_scheduler_type: cosine", 1)
	removed := strings.Replace(string(today), "\nmodel:\n", "\nmodel:\n  speed: 5\n", 1)
	for text, says := range map[string]string{
		string(today): "", alias: "", removed: "model.speed: 5 → no such key",
	} {
		raw, err := json.Marshal(setup{Config: text})
		require.NoError(t, err)
		var log bytes.Buffer
		h := &host{opts: &Options{}}
		h.opts.Log = slog.New(slog.NewTextHandler(&log, nil))
		require.NoError(t, h.read(raw))
		require.Equal(t, "cosine", h.config.Agent.Actor.Optim.Style)
		require.Equal(t, says != "", strings.Contains(log.String(), "no such key"), log.String())
		require.Contains(t, log.String(), says)
	}
}

// TestAWorkerClosesTheEnvironmentsThatItOpened: those of an earlier run when it opens those of the next, and the
// last ones when it ends, but not those of its caller.
func TestAWorkerClosesTheEnvironmentsThatItOpened(t *testing.T) {
	c := config.Default()
	raw, err := Setup(&c, nil)
	require.NoError(t, err)
	closed := 0
	count := func() error { closed++; return nil }
	h := &host{opts: &Options{}}
	for run := range 2 {
		require.NoError(t, h.read(raw))
		require.Equal(t, run, closed)
		h.envs.OnClose(count)
	}
	require.NoError(t, h.close())
	require.Equal(t, 2, closed)

	h = &host{opts: &Options{Envs: new(env.Registry)}}
	h.opts.Envs.OnClose(count)
	for range 2 {
		require.NoError(t, h.read(raw))
	}
	require.NoError(t, h.close())
	require.Equal(t, 2, closed)
}
