//go:build unix

package safetensors

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/regular"
)

// TestAPipeHasNoWeights: opening it would block until something writes to it.
func TestAPipeHasNoWeights(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "model.safetensors")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	_, err := Open(pipe)
	require.ErrorIs(t, err, ErrFormat)
	require.ErrorIs(t, err, regular.ErrNotRegular)
	_, err = OpenSharded(dir)
	require.ErrorIs(t, err, regular.ErrNotRegular)
}
