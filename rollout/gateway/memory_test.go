package gateway

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/rollout"
	"vagen/rollout/gateway/internal/dialect"
)

// TestAnEpisodeHasOneCopyOfItsMessages: every call sends the whole conversation and the definitions of tools again.
func TestAnEpisodeHasOneCopyOfItsMessages(t *testing.T) {
	const turns, size = 20, 1 << 18
	g := unserved(nil)
	made, err := g.Env(map[string]any{"wait": true})
	require.NoError(t, err)
	e := made.(player).Episode
	require.NoError(t, g.add(e))
	used := func() int64 {
		for range 3 { // a sync.Pool is empty after two
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := used()
	long := strings.Repeat("x", size)
	tools := []object{{"type": "function", "function": object{"name": "f", "description": strings.Repeat("y", 4*size)}}}
	var ms []object
	for turn := range turns {
		ms = append(ms, object{"role": "user", "content": long})
		body, err := json.Marshal(object{"messages": ms, "tools": tools})
		require.NoError(t, err)
		q, err := dialect.Chat.Decode(body)
		require.NoError(t, err)
		c, err := e.ask(q, false)
		require.NoError(t, err)
		require.Equal(t, turn == 0, c.parent == e.root)
		e.give(rollout.Reply{Turn: turn, Text: "four"})
		ms = append(ms, object{"role": "assistant", "content": "four"})
	}
	// One copy is turns·size, a copy for each call of the messages ten times that, of the tools four times.
	require.Less(t, used()-before, int64(3*turns*size))
	require.Len(t, e.turns, turns)
}
