package hub

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/internal/hub"
	"vagen/internal/origin"
)

// TestTheHubsDelayIsHonoured, and a redirect that is not followed is not repeated.
func TestTheHubsDelayIsHonoured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fetcher{Options: Options{Attempts: 3, Pause: time.Second, Log: slog.New(slog.DiscardHandler)}}
		fails := func(err error) (n int, took time.Duration) {
			begin := time.Now()
			require.ErrorIs(t, f.retry(t.Context(), func() (bool, error) { n++; return false, err }), err)
			return n, time.Since(begin)
		}
		n, took := fails(fmt.Errorf("list: %w", &hub.StatusError{Code: 429, After: time.Minute}))
		require.Equal(t, 3, n)
		require.Equal(t, 2*time.Minute, took)
		n, took = fails(&hub.StatusError{Code: 429, After: 24 * time.Hour})
		require.Equal(t, 1, n)
		require.Zero(t, took)
		n, _ = fails(fmt.Errorf("get: %w", origin.ErrRedirects))
		require.Equal(t, 1, n)
	})
}
