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
	require.Contains(t, refuse(t, "model", "fetch", "no-owner"), "must be owner/name")
	require.Contains(t, refuse(t, "model", "create", "--shape", "llama", dir), "llama-135m")
	require.Contains(t, refuse(t, "model", "create", "--dtype", "int8", dir), "int8")
	require.Contains(t, refuse(t, "model", "create", "--hidden", "-4", dir), "hidden_size is -4")
	require.Contains(t, refuse(t, "bench", "--mode", "train"), "--model")
	require.Contains(t, refuse(t, "bench", "--model", dir, "--mode", "nap"), "nap")
	require.Contains(t, refuse(t, "generate", "--model", dir), "--prompt")
	require.Contains(t, refuse(t, "generate", "--model", "none", "--prompt", "x", "--temperature", "Inf"),
		"temperature is +Inf, must be", "before the model is opened")
	require.Contains(t, refuse(t, "generate", "--model", dir, "--prompt", "<image>"), "0 images")
	require.Contains(t, refuse(t, "generate", "--model", dir, "--prompt", "x"), "config.json")
	require.Contains(t, refuse(t, "generate", "--model", dir, "--prompt", "x", "--image", filepath.Join(dir, "none.png")),
		"none.png")
	huge := filepath.Join(dir, "huge.png") // only a header: 50,000 by 50,000 pixels
	header := "\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x00\xc3\x50\x00\x00\xc3\x50\x08\x06\x00\x00\x00"
	sum := binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(header[12:])))
	require.NoError(t, os.WriteFile(huge, append([]byte(header), sum...), 0o644))
	require.Contains(t, refuse(t, "generate", "--model", dir, "--prompt", "x", "--image", huge), "50000 by 50000 pixels")
}

func TestShapesAreListed(t *testing.T) {
	var shapes map[string]vlm.Shape
	require.NoError(t, json.Unmarshal([]byte(succeed(t, "model", "shapes", "--json")), &shapes))
	text := succeed(t, "model", "shapes")
	for _, name := range vlm.ShapeNames() {
		require.Contains(t, shapes, name)
		require.Contains(t, text, name)
	}
}
