package vlm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/policy/vlm/internal/backend"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/plugin"
	"vagen/policy/vlm/internal/vlmtest"
)

func TestAutotuningIsRefusedWithoutAGPU(t *testing.T) {
	dir := vlmtest.Folder(t, model.Llama, nil)
	for _, backend := range []string{"", backend.Auto, backend.XLA, backend.Go} {
		_, err := Open(t.Context(), dir, Options{Backend: backend, Autotune: "kernels.txt"})
		testkit.Error(t, err, ErrOption, `Autotune is "kernels.txt", but Backend is "`)
	}
	_, err := Open(t.Context(), dir, Options{AutotuneSHA256: "ab"})
	require.ErrorContains(t, err, `AutotuneSHA256 is "ab", but Autotune is empty`)
}

// Check refuses a GPU that does not exist, so that a run leaves no folder behind.
func TestCheckNeedsTheGPU(t *testing.T) {
	dir := vlmtest.Folder(t, model.Llama, nil)
	_, err := Check(t.Context(), dir, Options{Backend: backend.CUDA})
	if plugin.RequireGPU() == nil {
		require.NoError(t, err)
		return
	}
	testkit.Error(t, err, ErrUnavailable, "no NVIDIA GPU was found")
}
