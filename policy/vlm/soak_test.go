package vlm

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/usage"
	"vagen/policy"
	"vagen/policy/vlm/internal/backend"
	"vagen/policy/vlm/internal/devicetest"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/vlmtest"
)

// VAGEN_SOAK is the number of decoding steps; there are a fifth as many optimiser steps.
// Without it there are few, in pure Go, which compiles nothing.
func soakSteps(t *testing.T) (steps int, on string) {
	t.Helper()
	text := os.Getenv("VAGEN_SOAK")
	if text == "" {
		return 200, backend.Go
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, "VAGEN_SOAK")
	return max(n, 200), devicetest.Backend()
}

// soak repeats work n times and measures the memory from the first fifth on, when
// everything is compiled and heaps have reached their size. The bytes of arrays must be
// exactly the same.
func soak(t *testing.T, m *Model, what string, times int, work func(i int)) {
	t.Helper()
	var arrays, bytes, resident int64
	for i := range times {
		work(i)
		n, b := m.dev.Live()
		if i == times/5 {
			arrays, bytes, resident = n, b, usage.Resident()
		}
		if i > times/5 {
			require.Equal(t, arrays, n, "%s: arrays after %d", what, i)
			require.Equal(t, bytes, b, "%s: bytes after %d", what, i)
		}
	}
	grown := usage.Resident() - resident
	t.Logf("soak: %s: %d times, memory %.1f MB, %+.1f MB since the first fifth", what, times,
		float64(usage.Resident())/1e6, float64(grown)/1e6)
	// Heaps vary by some megabytes; a leak of one small array for every step of a
	// long run is more than this.
	require.Less(t, grown, int64(64<<20), "%s", what)
}

func TestMemoryStaysFlatInALongSoak(t *testing.T) {
	steps, backend := soakSteps(t)
	m := openTiny(t, vlmtest.Folder(t, model.Qwen25VL, nil), Options{Backend: backend, CacheTokens: 128})
	const response = 20
	soak(t, m, "pieces of 20 decoding steps", steps/response, func(i int) {
		prompts := vlmtest.Asks()[:2]
		for k := range prompts {
			prompts[k].Seed = uint64(2*i + k)
		}
		for range 2 { // two turns
			out, err := m.Generate(t.Context(), prompts, policy.Sampling{Temperature: 1, MaxTokens: response / 2})
			require.NoError(t, err)
			require.Len(t, out, len(prompts))
			for k := range prompts {
				prompts[k].Messages = vlmtest.Say("on")
			}
		}
		m.Forget(vlmtest.KeysOf(prompts)...)
	})
	// One response is longer than the others and moves to another batch.
	soak(t, m, "ragged turns of 50 decoding steps", steps/50, func(i int) {
		prompts := make([]policy.Prompt, 8)
		for k := range prompts {
			prompts[k] = policy.Prompt{Conversation: uint64(k), Seed: uint64(8*i + k), Messages: vlmtest.Say("go"), MaxTokens: 3}
		}
		prompts[i%8].MaxTokens = 50
		_, err := m.Generate(t.Context(), prompts, policy.Sampling{MaxTokens: 3})
		require.NoError(t, err)
		m.Forget(vlmtest.KeysOf(prompts)...)
	})
	require.True(t, vlmtest.Regrouped(m.net))
	rows, want := partsOf(m).FourRows(t)
	soak(t, m, "optimiser steps", steps/5, func(int) { partsOf(m).Imitate(t, rows, want, 1e-3) })
}
