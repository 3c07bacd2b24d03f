package calls

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGuardRefusesWhatComesTooEarlyOrTooLate(t *testing.T) {
	ctx, g := t.Context(), Guard{Env: "pond"}
	require.NoError(t, g.Open(ctx))
	require.ErrorContains(t, new(Guard).Open(ctx), "the environment is a zero value")
	require.NoError(t, g.Reset(ctx, 0))
	require.NoError(t, g.Step(ctx, true))
	require.EqualError(t, g.Step(ctx, false), "pond: step: Reset has not been called")
	require.ErrorIs(t, g.Step(ctx, false), ErrNotReset)
	require.EqualError(t, g.Reset(ctx, -1), "pond: reset: seed -1: the seed must not be negative")
	require.ErrorIs(t, g.Reset(ctx, -1), ErrSeed)

	require.NoError(t, g.Close())
	require.NoError(t, g.Close())
	for _, err := range []error{g.Open(ctx), g.Reset(ctx, -1), g.Step(ctx, false)} {
		require.EqualError(t, err, "pond: the environment is closed")
		require.ErrorIs(t, err, ErrClosed)
	}

	cause := errors.New("the episode is over budget")
	over, cancel := context.WithCancelCause(ctx)
	cancel(cause)
	for _, err := range []error{g.Open(over), g.Reset(over, -1), g.Step(over, false)} {
		require.EqualError(t, err, "pond: the episode is over budget")
		require.ErrorIs(t, err, cause)
	}
}
