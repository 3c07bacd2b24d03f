//go:build cgo

package xla

import (
	"log/slog"
	"testing"

	"github.com/gomlx/go-xla/pkg/pjrt"
	"github.com/stretchr/testify/require"

	"vagen/policy/vlm/internal/plugin"
)

func TestMemoryOfAGPUFollowsTheEnvironment(t *testing.T) {
	env := map[string]string{}
	get := func(name string) string { return env[name] }
	o, err := gpuOptions(get)
	require.NoError(t, err)
	require.Equal(t, pjrt.NamedValuesMap{"memory_fraction": float32(0.9)}, o)

	env = map[string]string{memoryFraction: "0.25", preallocate: "false", allocator: "cuda_async"}
	o, err = gpuOptions(get)
	require.NoError(t, err)
	require.Equal(t, pjrt.NamedValuesMap{"memory_fraction": float32(0.25), "preallocate": false, "allocator": "cuda_async"}, o)

	env = map[string]string{memoryFraction: "2", preallocate: "perhaps", allocator: "mine"}
	_, err = gpuOptions(get)
	for _, word := range []string{memoryFraction + ` is "2"`, preallocate + ` is "perhaps"`, allocator + ` is "mine"`} {
		require.ErrorContains(t, err, word)
	}
	env = map[string]string{memoryFraction: "NaN"}
	_, err = gpuOptions(get)
	require.ErrorContains(t, err, "must be a number above 0")
}

func TestPathWithACommaIsRefused(t *testing.T) {
	_, err := Start(plugin.Plugin{Path: "/a,b/plugin.so"}, plugin.CPU, 0, plugin.Choices{}, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "/a,b/plugin.so")
}
