//go:build unix

package tokenizer

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/regular"
)

// TestAPipeIsNoTokenizer: it would be read for ever.
func TestAPipeIsNoTokenizer(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, tokenizerFile), 0o600))
	_, err := Load(dir)
	require.ErrorIs(t, err, regular.ErrNotRegular)
	require.ErrorContains(t, err, tokenizerFile)
}
