package mlflow

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTheServersDelayIsHonoured also after Close, which shortens only own delays.
func TestTheServersDelayIsHonoured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &Sink{quit: make(chan struct{})}
		took := func(delay, after time.Duration) time.Duration {
			begin := time.Now()
			m.wait(t.Context(), delay, after)
			return time.Since(begin)
		}
		require.Equal(t, time.Minute, took(time.Minute, 0))
		close(m.quit)
		require.Equal(t, minDelay, took(time.Minute, 0))
		require.Equal(t, 10*time.Second, took(10*time.Second, 10*time.Second))
	})
	require.Equal(t, time.Second, afterOf(fmt.Errorf("call: %w", &fault{Status: 429, after: time.Second})))
}
