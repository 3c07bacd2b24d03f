//go:build unix

package cli

import (
	"context"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/signals"
)

func TestSignalsEndTheContextOnce(t *testing.T) {
	for signal, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGUSR1: 138} {
		ctx, stop := signals.Until(t.Context())
		require.NoError(t, syscall.Kill(syscall.Getpid(), signal))
		<-ctx.Done()
		require.ErrorIs(t, ctx.Err(), context.Canceled)
		var by signals.Signal
		require.ErrorAs(t, context.Cause(ctx), &by)
		require.Equal(t, want, by.Code())
		require.NoError(t, syscall.Kill(syscall.Getpid(), syscall.SIGUSR1), "SIGUSR1 does not end this program")
		stop()
	}
	ctx, stop := signals.Until(t.Context())
	stop()
	<-ctx.Done()
}
