package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestThePicturesOfTheDocumentsAreCurrent: docs has what the library computes now. To update
// them, run go run ./internal/figures docs.
func TestThePicturesOfTheDocumentsAreCurrent(t *testing.T) {
	all, err := pictures()
	require.NoError(t, err)
	require.Len(t, all, 3)
	for name, want := range all {
		got, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
		require.NoError(t, err)
		require.Equal(t, want, string(got), name)
	}
}
