package main

import (
	"encoding/json"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/cli"
	"vagen/internal/safetensors"
)

// TestDamagedModelsAreReported: every command that opens a model reports all errors of
// its folder in one message and writes nothing.
func TestDamagedModelsAreReported(t *testing.T) {
	good := filepath.Join(t.TempDir(), "good")
	succeed(t, "model", "create", "--shape", "quickstart", "--layers", "1", good)
	const file = "model.safetensors"
	config := func(dir, key string, value any) {
		name := filepath.Join(dir, "config.json")
		raw, err := os.ReadFile(name)
		require.NoError(t, err)
		var c map[string]any
		require.NoError(t, json.Unmarshal(raw, &c))
		c[key] = value
		raw, err = json.Marshal(c)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(name, raw, 0o644))
	}
	for name, c := range map[string]struct {
		harm func(dir string)
		want []string
	}{
		"impossible sizes": {func(dir string) {
			config(dir, "num_attention_heads", 0)
			config(dir, "num_hidden_layers", 2_000_000_000)
		},
			[]string{"num_attention_heads is 0", "num_hidden_layers is 2000000000"}},
		"cut short": {func(dir string) {
			require.NoError(t, os.Truncate(filepath.Join(dir, file), 500_000))
		}, []string{file, "is truncated"}},
		"tensors that do not fit": {func(dir string) { reshape(t, filepath.Join(dir, file)) }, []string{
			"in 3 places", "norm.weight [96] is missing", "norm1.weight has shape [1 64], must be [64]",
			"up_proj.weight [288 96] is missing"}},
	} {
		dir := filepath.Join(t.TempDir(), "m")
		require.NoError(t, os.CopyFS(dir, os.DirFS(good)))
		c.harm(dir)
		for _, line := range [][]string{
			{"generate", "--backend", "go", "--model", dir, "--prompt", "x"},
			{"bench", "--backend", "go", "--model", dir, "--mode", "decode"},
		} {
			code, out, complaint := launchRun(t, "", line...)
			require.Contains(t, []int{cli.Failed, cli.Usage}, code, name)
			require.Empty(t, out, name)
			for _, want := range append(c.want, dir) {
				require.Contains(t, complaint, want, name)
			}
		}
	}
}

// reshape removes two tensors and changes the shape of a third.
func reshape(t *testing.T, name string) {
	t.Helper()
	r, err := safetensors.Open(name)
	require.NoError(t, err)
	defer r.Close()
	var list []safetensors.Tensor
	values := map[string][]float32{}
	for _, key := range r.Names() {
		info, _ := r.Info(key)
		x, err := r.Float32(key, nil)
		require.NoError(t, err)
		if key == "model.norm.weight" || strings.HasSuffix(key, "layers.0.mlp.up_proj.weight") {
			continue
		}
		if strings.HasSuffix(key, "blocks.0.norm1.weight") {
			info.Shape = []int{1, len(x)}
		}
		list, values[key] = append(list, info), x
	}
	w, err := safetensors.Create(name+".new", list, nil)
	require.NoError(t, err)
	defer w.Close()
	for _, info := range list {
		require.NoError(t, w.Float32(info.Name, values[info.Name]))
	}
	require.NoError(t, w.Commit())
	require.NoError(t, os.Rename(name+".new", name))
}

// TestRequestsThatAModelCannotReadAreUsageErrors, before anything is written.
func TestRequestsThatAModelCannotReadAreUsageErrors(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "m")
	succeed(t, "model", "create", "--shape", "quickstart", "--layers", "1", dir)
	thin := filepath.Join(t.TempDir(), "thin.png")
	f, err := os.Create(thin)
	require.NoError(t, err)
	require.NoError(t, png.Encode(f, image.NewRGBA(image.Rect(0, 0, 4000, 2))))
	require.NoError(t, f.Close())
	ask := func(args ...string) string {
		return refuse(t, append([]string{"generate", "--model", dir, "--backend", "go"}, args...)...)
	}
	require.Contains(t, ask("--prompt", "x", "--image", thin), "200 times")
	require.Contains(t, ask("--prompt", "a <image> b <image>", "--image", thin), "2 marks <image>, but there are 1 images")
	require.Contains(t, ask("--prompt", "a <|image_pad|> b"), "is the image placeholder")
	require.Contains(t, ask("--prompt", strings.Repeat("x", 5000)), "the model allows 2048")
	require.Contains(t, ask("--prompt", "x", "--max-tokens", "1000000"), "the model allows 2048")
	require.Contains(t, ask("--prompt", "x", "--temperature", "-1"), "temperature is -1")
	for _, mode := range []string{"decode", "prefill"} {
		require.Contains(t, refuse(t, "bench", "--model", dir, "--backend", "go", "--mode", mode, "--batch", "1", "--seq",
			"3000"), "the model allows 2048")
	}
	for _, mode := range []string{"train", "logprob"} {
		code, out, complaint := launchRun(t, "", "bench", "--model", dir, "--backend", "go", "--mode", mode, "--batch", "1",
			"--seq", "3000")
		require.Equal(t, cli.Failed, code)
		require.Empty(t, out)
		require.Contains(t, complaint, "row 0 has 3000 tokens, the model allows 2048")
	}
}
