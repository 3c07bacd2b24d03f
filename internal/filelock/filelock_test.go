package filelock

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
)

func TestWaitingForALockIsReportedAndCanBeCancelled(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".lock")
	never := func() { t.Error("nothing to wait for") }
	unlock, err := Lock(t.Context(), path, never)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	waits := 0
	_, err = Lock(ctx, path, func() {
		waits++
		cancel()
	})
	testkit.Error(t, err, context.Canceled, path)
	require.Equal(t, 1, waits)
	unlock()
	unlock, err = Lock(t.Context(), path, never)
	require.NoError(t, err)
	unlock()
}
