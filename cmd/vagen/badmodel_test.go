package main

import (
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/cli"
	"vagen/internal/testkit"
)

// TestDamagedModelsAreReported: commands that open a model report all errors of its folder in one message and write
// nothing.
func TestDamagedModelsAreReported(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "m")
	succeed(t, "model", "create", "--shape", "quickstart", "--layers", "1", dir)
	name := filepath.Join(dir, "config.json")
	damaged := strings.NewReplacer(`"num_attention_heads": 3`, `"num_attention_heads": 0`,
		`"num_hidden_layers": 1`, `"num_hidden_layers": 2000000000`).Replace(testkit.Text(t, name))
	testkit.Write(t, name, damaged)
	for _, command := range [][]string{{"generate", "--prompt", "x"}, {"bench", "--mode", "decode"}} {
		code, out, complaint := launchRun(t, "", append(command, "--backend", "go", "--model", dir)...)
		require.Contains(t, []int{cli.Failed, cli.Usage}, code, command)
		require.Empty(t, out, command)
		for _, want := range []string{"num_attention_heads is 0", "num_hidden_layers is 2000000000", dir} {
			require.Contains(t, complaint, want, command)
		}
	}
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
		return refuse(t, "", append([]string{"generate", "--model", dir, "--backend", "go"}, args...)...)
	}
	require.Contains(t, ask("--prompt", "x", "--image", thin), "200 times")
	require.Contains(t, ask("--prompt", "a <image> b <image>", "--image", thin), "2 marks <image>, but there are 1 images")
	require.Contains(t, ask("--prompt", "a <|image_pad|> b"), "is the image placeholder")
	require.Contains(t, ask("--prompt", strings.Repeat("x", 5000)), "the model allows 2048")
	require.Contains(t, ask("--prompt", "x", "--max-tokens", "1000000"), "the model allows 2048")
	require.Contains(t, ask("--prompt", "x", "--temperature", "-1"), "temperature is -1")
	for _, mode := range []string{"decode", "prefill"} {
		refuse(t, "the model allows 2048", "bench", "--model", dir, "--backend", "go", "--mode", mode, "--batch", "1",
			"--seq", "3000")
	}
	for _, mode := range []string{"train", "logprob"} {
		code, out, complaint := launchRun(t, "", "bench", "--model", dir, "--backend", "go", "--mode", mode, "--batch", "1",
			"--seq", "3000")
		require.Equal(t, cli.Failed, code)
		require.Empty(t, out)
		require.Contains(t, complaint, "row 0 has 3000 tokens, the model allows 2048")
	}
}
