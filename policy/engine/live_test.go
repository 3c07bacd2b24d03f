package engine

import (
	"context"
	"fmt"
	"image"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
)

// TestALiveServer runs against the server in VAGEN_ENGINE, which must serve the folder in
// VAGEN_ENGINE_MODEL. VAGEN_ENGINE_KIND is vllm (the default) or sglang. With
// VAGEN_ENGINE_WEIGHTS, a folder that the server can read, all weights are loaded from it,
// and with VAGEN_ENGINE_ADAPTER an adapter.
func TestALiveServer(t *testing.T) {
	f := live(t)
	t.Run("responses", func(t *testing.T) { liveResponses(t, f) })
	if path := os.Getenv("VAGEN_ENGINE_ADAPTER"); path != "" {
		t.Run("adapter", func(t *testing.T) { liveWeights(t, f, path, true) })
	}
	if path := os.Getenv("VAGEN_ENGINE_WEIGHTS"); path != "" {
		g := live(t) // a fleet loads either adapters or all weights
		t.Run("weights", func(t *testing.T) { liveWeights(t, g, path, false) })
	}
}

// live connects to the server in VAGEN_ENGINE, and skips the test if there is none.
func live(t testing.TB) *Fleet {
	t.Helper()
	address, dir := os.Getenv("VAGEN_ENGINE"), os.Getenv("VAGEN_ENGINE_MODEL")
	if address == "" {
		t.Skip("VAGEN_ENGINE names no server")
	}
	require.NotEmpty(t, dir, "VAGEN_ENGINE_MODEL must be the folder of the served model")
	c, err := LoadCodec(dir, nil)
	require.NoError(t, err)
	o := DefaultOptions()
	o.Addresses = []string{address}
	if kind := os.Getenv("VAGEN_ENGINE_KIND"); kind != "" {
		o.Kind = Kind(kind)
	}
	f, err := Open(context.Background(), c, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

// liveResponses plays conversations of three turns, with images if the model reads them. That
// the server read every token of every prompt is checked by Generate.
func liveResponses(t *testing.T, f *Fleet) {
	p := NewPolicy(f)
	for turn := range 3 {
		var prompts []policy.Prompt
		for i := range 16 {
			var pictures []image.Image
			if f.codec.proc != nil {
				pictures = []image.Image{drawn(96+16*turn, 80, uint8(16*i))}
			}
			q := following(uint64(i+1), fmt.Sprint("and now ", turn), pictures...)
			if turn == 0 {
				q = opening(uint64(i+1), "What is this?", pictures...)
			}
			prompts = append(prompts, q)
		}
		for i, c := range ask(t, p, prompts...) {
			require.NoError(t, c.Err, "conversation %d, turn %d", i, turn)
			require.Len(t, c.LogProbs, len(c.Tokens))
		}
	}
	require.Zero(t, f.Gauges()["engine_failures"])
	// Greedy responses of the same prompt are the same.
	greedy := policy.Sampling{MaxTokens: 8}
	var texts []string
	for range 2 {
		out, err := NewPolicy(f).Generate(t.Context(), []policy.Prompt{opening(1, "Go left or right?")}, greedy)
		require.NoError(t, err)
		require.NoError(t, out[0].Err)
		texts = append(texts, out[0].Text)
	}
	require.Equal(t, texts[0], texts[1])
}

// liveWeights brings weights to the server: twice under different names, as a run does.
func liveWeights(t *testing.T, f *Fleet, path string, adapter bool) {
	path, err := filepath.Abs(path)
	require.NoError(t, err)
	for i := range 2 {
		require.NoError(t, f.Publish(t.Context(), Version{Name: f.NewName(i + 1), Path: path, Adapter: adapter}))
		require.NoError(t, ask(t, NewPolicy(f), opening(1, "x"))[0].Err)
	}
	require.Zero(t, f.Gauges()["engine_mixed_responses"])
}
