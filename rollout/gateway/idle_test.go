//go:build !race

package gateway

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/rollout"
)

// TestIdleEpisodesAreSmall: 10,000 that wait for a client need less than 200 MB.
func TestIdleEpisodesAreSmall(t *testing.T) {
	g, err := New(Settings{})
	require.NoError(t, err)
	r := new(env.Registry)
	r.SetRemote("agent")
	require.NoError(t, r.Register("agent", g.Env))
	p := rollout.Player{Policy: &scripted{}, Envs: r, MaxTurns: 3, Patience: time.Millisecond, UncountedRemote: true}
	const n = 10000
	used := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse
	}
	before := used()
	done := make(chan error)
	go func() {
		episodes := make([]rollout.Episode, n)
		for i := range episodes {
			episodes[i] = rollout.Episode{Env: "agent", Config: map[string]any{"wait": true}}
		}
		_, _, err := p.Play(t.Context(), episodes, 1)
		done <- err
	}()
	require.Eventually(t, func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.waiting) == n
	}, time.Minute, 10*time.Millisecond)
	mb := float64(used()-before) / 1e6
	t.Logf("%d idle episodes: %.0f MB", n, mb)
	require.Less(t, mb, 200.0)
	g.Drain()
	require.ErrorIs(t, <-done, rollout.ErrNotStarted)
	require.NoError(t, g.Close())
}
