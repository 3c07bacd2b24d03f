package embedded_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/train/queue"
	"vagen/train/queue/embedded"
)

// TestStartWithFewOptions: without a log nothing is logged, also by the server's own goroutines; files need a folder.
func TestStartWithFewOptions(t *testing.T) {
	_, err := embedded.Start(queue.ServerOptions{})
	testkit.Error(t, err, queue.ErrServer, "Dir is empty")
	s, err := embedded.Start(queue.ServerOptions{Dir: t.TempDir(), Host: "127.0.0.1"})
	require.NoError(t, err)
	require.False(t, s.Failed())
	s.Stop()
}
