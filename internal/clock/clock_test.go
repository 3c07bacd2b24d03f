package clock

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestWait: a wait ends with its time or with its context, and tells which.
func TestWait(t *testing.T) {
	begin := time.Now()
	require.NoError(t, Wait(t.Context(), 20*time.Millisecond))
	require.GreaterOrEqual(t, time.Since(begin), 20*time.Millisecond)

	reason := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error)
	go func() { ended <- Wait(ctx, time.Hour) }()
	cancel(reason)
	require.Equal(t, reason, <-ended)
	require.Equal(t, reason, Wait(ctx, 0), "a context that has ended, whichever is seen first")
}

// TestJoin: a wait ends with the group's work or with its context, and tells which.
func TestJoin(t *testing.T) {
	var group sync.WaitGroup
	require.NoError(t, Join(t.Context(), &group))
	reason := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	work := make(chan struct{})
	group.Go(func() { <-work })
	cancel(reason)
	require.Equal(t, reason, Join(ctx, &group))
	close(work)
	require.NoError(t, Join(t.Context(), &group))
}

func TestSecondsAreNoLongerThanADurationHolds(t *testing.T) {
	for s, want := range map[float64]time.Duration{
		0: 0, -1: -time.Second, 0.25: time.Second / 4, 1e300: 1e9 * time.Second, math.Inf(1): 1e9 * time.Second,
	} {
		require.Equal(t, want, Seconds(s), s)
	}
}
