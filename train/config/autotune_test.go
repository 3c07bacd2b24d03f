package config_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
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
	testkit.Write(t, file, "abc")
	first := begin()
	// The SHA-256 of abc, from FIPS 180-2, appendix B.1.
	const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	require.Equal(t, abc, first.Model.AutotuneSum)
	require.Empty(t, config.Differences(first, begin()))
	require.Equal(t, []string{`model.autotune_sha256: "" → "` + abc + `"`}, config.Differences(measured, first))
	testkit.Write(t, file, "abd")
	require.Len(t, config.Differences(first, begin()), 1)

	pinned := *first
	require.NoError(t, pinned.PinAutotune(), "a sum that is set is kept")
	require.Equal(t, abc, pinned.Model.AutotuneSum)
	c := config.Default()
	c.Model.Autotune = t.TempDir()
	require.ErrorIs(t, c.PinAutotune(), config.ErrConfig)
}
