package main

import (
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/policy/vlm"
)

func TestModelsAreCreatedBenchmarkedAndSampled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "m")
	succeed(t, "model", "create", "--shape", "quickstart", "--layers", "1", "--dtype", "bfloat16", "--word", "left", dir)

	var line map[string]any
	out := succeed(t, "bench", "--model", dir, "--backend", "go", "--mode", "logprob", "--batch", "1", "--seq", "8",
		"--steps", "1", "--json")
	require.Equal(t, 1, strings.Count(out, "\n"), "one line")
	require.NoError(t, json.Unmarshal([]byte(out), &line))
	require.Equal(t, "logprob", line["mode"])
	require.Positive(t, line["tokens_per_second"])

	picture := filepath.Join(t.TempDir(), "p.png")
	f, err := os.Create(picture)
	require.NoError(t, err)
	require.NoError(t, png.Encode(f, image.NewRGBA(image.Rect(0, 0, 56, 56))))
	require.NoError(t, f.Close())
	ask := []string{"generate", "--model", dir, "--backend", "go", "--image", picture, "--prompt", "where?",
		"--max-tokens", "5", "--seed", "3"}
	require.Equal(t, succeed(t, ask...), succeed(t, ask...), "equal seeds give equal responses")
	_, _, logged := launchRun(t, "", ask...)
	require.Contains(t, logged, "tokens=5")
}

func TestInvalidModelArgumentsAreUsageErrors(t *testing.T) {
	dir := t.TempDir()
	refuse(t, "must be owner/name", "model", "fetch", "no-owner")
	refuse(t, "llama-135m", "model", "create", "--shape", "llama", dir)
	refuse(t, "int8", "model", "create", "--dtype", "int8", dir)
	refuse(t, "hidden_size is -4", "model", "create", "--hidden", "-4", dir)
	refuse(t, "--model", "bench", "--mode", "train")
	refuse(t, "nap", "bench", "--model", dir, "--mode", "nap")
	refuse(t, "--prompt", "generate", "--model", dir)
	require.Contains(t, refuse(t, "", "generate", "--model", "none", "--prompt", "x", "--temperature", "Inf"),
		"temperature is +Inf, must be", "before the model is opened")
	refuse(t, "0 images", "generate", "--model", dir, "--prompt", "<image>")
	refuse(t, "config.json", "generate", "--model", dir, "--prompt", "x")
	refuse(t, "none.png", "generate", "--model", dir, "--prompt", "x", "--image", filepath.Join(dir, "none.png"))
	huge := filepath.Join(dir, "huge.png") // only a header: 50,000 by 50,000 pixels
	header := "\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x00\xc3\x50\x00\x00\xc3\x50\x08\x06\x00\x00\x00"
	sum := binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(header[12:])))
	testkit.Write(t, huge, append([]byte(header), sum...))
	refuse(t, "50000 by 50000 pixels", "generate", "--model", dir, "--prompt", "x", "--image", huge)
}

func TestShapesAreListed(t *testing.T) {
	shapes := decoded[map[string]vlm.Shape](t, "model", "shapes", "--json")
	text := succeed(t, "model", "shapes")
	for _, name := range vlm.ShapeNames() {
		require.Contains(t, shapes, name)
		require.Contains(t, text, name)
	}
}
