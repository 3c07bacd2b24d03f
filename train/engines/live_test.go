package engines

import (
	"image"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/engine"
	"vagen/policy/vlm"
	"vagen/train/config"
)

// TestALiveServersLogProbsAreTheModels compares the log-probs of the server in VAGEN_ENGINE with
// those of the folder in VAGEN_ENGINE_MODEL, which it must serve unchanged, computed here, for
// prompts with and without images, most of which have to be resized. A server that computes in
// another type than float32 needs a larger VAGEN_ENGINE_LIMIT.
func TestALiveServersLogProbsAreTheModels(t *testing.T) {
	address, dir := os.Getenv("VAGEN_ENGINE"), os.Getenv("VAGEN_ENGINE_MODEL")
	if address == "" {
		t.Skip("VAGEN_ENGINE names no server")
	}
	require.NotEmpty(t, dir, "VAGEN_ENGINE_MODEL must be the folder of the served model")
	c := config.Default()
	c.Agent.Model.Path, c.Agent.Rollout.Name = dir, "vllm"
	c.Agent.Rollout.Engine.Addresses = []string{address}
	if kind := os.Getenv("VAGEN_ENGINE_KIND"); kind != "" {
		c.Agent.Rollout.Name = kind
	}
	m, err := vlm.Open(t.Context(), dir, vlm.Options{})
	require.NoError(t, err)
	defer m.Close()
	fleet, err := open(t.Context(), &c, nil)
	require.NoError(t, err)
	defer fleet.Close()
	l := &Learner{Model: m, config: &c, fleet: fleet}
	limit := 1e-4 // two programs that add in other orders, in float32
	if text := os.Getenv("VAGEN_ENGINE_LIMIT"); text != "" {
		limit, err = strconv.ParseFloat(text, 64)
		require.NoError(t, err, "VAGEN_ENGINE_LIMIT")
	}
	kinds := []string{"no image", "one image", "two images"}
	if !m.ReadsImages() {
		kinds = kinds[:1]
	}
	sizes := [][2]int{{96, 96}, {130, 57}, {20, 20}, {301, 40}, {84, 56}, {48, 200}}
	for n, kind := range kinds {
		prompts := make([]policy.Prompt, 24)
		for i := range prompts {
			size := sizes[i%len(sizes)]
			pictures := []image.Image{probeImage(i, size[0], size[1]), probeImage(i+7, size[1], size[0])}
			prompts[i] = probe(i, pictures[:n]...)
		}
		samples, err := l.scored(t.Context(), prompts)
		require.NoError(t, err, kind)
		a := engine.Compare(samples)
		t.Logf("%s: %d responses, %d tokens, mean difference %.2g, largest %.2g", kind, a.Responses, a.Tokens, a.Mean,
			a.Largest)
		require.Less(t, a.Largest, limit, kind)
	}
}
