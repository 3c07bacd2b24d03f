package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/train/config"
)

func TestARunIsBoundToTheKernelsItBeganWith(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kernels.txt")
	begin := func() *config.Config {
		c := config.Default()
		c.Model.Backend, c.Model.Autotune = "cuda", file
		require.NoError(t, c.PinAutotune())
		return &c
	}
	measured := begin()
	require.Empty(t, measured.Model.AutotuneSum)
	require.NoError(t, os.WriteFile(file, []byte("abc"), 0o644))
	first := begin()
	// The SHA-256 of abc, from FIPS 180-2, appendix B.1.
	const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	require.Equal(t, abc, first.Model.AutotuneSum)
	require.Empty(t, config.Differences(first, begin()))
	require.Equal(t, []string{`model.autotune_sha256: "" → "` + abc + `"`}, config.Differences(measured, first))
	require.NoError(t, os.WriteFile(file, []byte("abd"), 0o644))
	require.Len(t, config.Differences(first, begin()), 1)

	pinned := *first
	require.NoError(t, pinned.PinAutotune(), "a sum that is set is kept")
	require.Equal(t, abc, pinned.Model.AutotuneSum)
	c := config.Default()
	c.Model.Autotune = t.TempDir()
	require.ErrorIs(t, c.PinAutotune(), config.ErrConfig)
}

func TestAutotuningNeedsAGPU(t *testing.T) {
	for _, backend := range []string{"auto", "xla", "go"} {
		c := config.Default()
		c.Model.Backend, c.Model.Autotune = backend, "kernels.txt"
		require.ErrorContains(t, c.Validate(), `model.autotune is "kernels.txt", but model.backend is "`+backend+
			`", must be cuda`)
	}
	c := config.Default()
	c.Model.AutotuneSum = "ab"
	require.ErrorContains(t, c.Validate(), `model.autotune_sha256 is "ab", but model.autotune is empty`)
}
