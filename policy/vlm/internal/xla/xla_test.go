//go:build cgo

package xla

import (
	"log/slog"
	"testing"

	"github.com/gomlx/go-xla/pjrt"
	"github.com/stretchr/testify/require"

	"vagen/policy/vlm/internal/plugin"
)

func TestMemoryOfAGPUFollowsTheEnvironment(t *testing.T) {
	env := map[string]string{}
	get := func(name string) string { return env[name] }
	o, err := gpuOptions(get)
	require.NoError(t, err)
	require.Equal(t, pjrt.NamedValuesMap{"memory_fraction": float32(0.9), "preallocate": true}, o)

	env = map[string]string{memoryFraction: "0.25", preallocate: "false", allocator: "cuda_async"}
	o, err = gpuOptions(get)
	require.NoError(t, err)
	require.Equal(t, pjrt.NamedValuesMap{"memory_fraction": float32(0.25), "preallocate": false,
		"allocator": "cuda_async"}, o)

	env = map[string]string{memoryFraction: "2", preallocate: "perhaps", allocator: "mine"}
	_, err = gpuOptions(get)
	for _, word := range []string{memoryFraction + ` is "2"`, preallocate + ` is "perhaps"`, allocator + ` is "mine"`} {
		require.ErrorContains(t, err, word)
	}
	env = map[string]string{memoryFraction: "NaN"}
	_, err = gpuOptions(get)
	require.ErrorContains(t, err, "must be a number above 0")
}

// TestDevicesAndPluginsAreDescribed, as nodes compare them.
func TestDevicesAndPluginsAreDescribed(t *testing.T) {
	p, err := plugin.Find(t.Context(), plugin.CPU)
	if err != nil {
		t.Skip(err)
	}
	b, err := Start(p, plugin.CPU, 2, plugin.Choices{}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	kinds, version, err := Describe(b, 2)
	require.NoError(t, err)
	require.Equal(t, []string{"cpu", "cpu"}, kinds)
	require.Regexp(t, `^PJRT 0\.\d+, cpu .*, SHA-256 [0-9a-f]{64}$`, version)
	if p.SHA256 != "" {
		require.Contains(t, version, p.SHA256)
	}
	_, _, err = Describe(nil, 1)
	require.ErrorContains(t, err, "is no backend of XLA")
}

func TestPathWithACommaIsRefused(t *testing.T) {
	_, err := Start(plugin.Plugin{Path: "/a,b/plugin.so"}, plugin.CPU, 0, plugin.Choices{}, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "/a,b/plugin.so")
}
