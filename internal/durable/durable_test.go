package durable_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/durable"
)

// TestAFileThatCannotBeReplacedIsKept, and nothing of the new content is left.
func TestAFileThatCannotBeReplacedIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, durable.WriteFile(path, []byte("old")))
	require.NoError(t, durable.WriteFile(path, []byte("new")))
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "new", string(raw))
	taken := filepath.Join(filepath.Dir(path), "folder")
	require.NoError(t, os.MkdirAll(filepath.Join(taken, "full"), 0o755))
	require.EqualError(t, durable.WriteFile(taken, []byte("x")), taken+": not a regular file")
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 2)
}
