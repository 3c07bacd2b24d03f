package upload

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/hub"
	"vagen/train/config"
)

// TestAnInterruptedLastUploadIsAnError: the model is not on the hub.
func TestAnInterruptedLastUploadIsAnError(t *testing.T) {
	t.Setenv("HF_TOKEN", "secret")
	t.Setenv("HF_ENDPOINT", "http://localhost:1") // not reached
	client, err := hub.FromEnvironment()
	require.NoError(t, err)
	q := &Queue{client: client, c: &config.HubConfig{Repo: "o/n"}, log: slog.New(slog.DiscardHandler)}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	q.Add(ctx, t.TempDir(), 1)
	require.ErrorIs(t, q.Wait(), context.Canceled)
}
