//go:build unix

package sft_test

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/train/sft"
)

// TestANamedPipeIsRefused, because reading it would block.
func TestANamedPipeIsRefused(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "p.jsonl")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	c := settings(pipe)
	_, err := sft.Open(t.Context(), &c, nil, nil)
	require.ErrorIs(t, err, sft.ErrExample)
	require.ErrorContains(t, err, "not a regular file")
}
