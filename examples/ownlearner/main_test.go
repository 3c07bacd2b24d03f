package main

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheTableLearnsAndIsResumed: more games are won than at random, and a longer run in
// the same folder continues.
func TestTheTableLearnsAndIsResumed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	var out bytes.Buffer
	require.NoError(t, trainTable(t.Context(), dir, 12, &out))
	require.Contains(t, out.String(), "games won: before 0.2", "at random")
	require.Contains(t, out.String(), "trained 0.3", "at random it is 0.26, at best 0.43")
	require.NoError(t, trainTable(t.Context(), dir, 14, &out))
	require.DirExists(t, filepath.Join(dir, "checkpoints", "step_14"))
}
