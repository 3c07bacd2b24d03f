package svg

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// busyOnce answers the first request with status 429 and the header Retry-After, and records
// the times.
type busyOnce struct {
	after string
	at    []time.Time
}

func (b *busyOnce) RoundTrip(r *http.Request) (*http.Response, error) {
	b.at = append(b.at, time.Now())
	a := &http.Response{
		StatusCode: http.StatusOK,
		Header:     http.Header{},
		Request:    r,
		Body:       io.NopCloser(strings.NewReader(`{"score": 0.5}`)),
	}
	if len(b.at) == 1 {
		a.StatusCode = http.StatusTooManyRequests
		a.Header.Set("Retry-After", b.after)
	}
	return a, nil
}

// TestTheScorersDelayIsHonoured: a service that asks for a minute is asked again after it.
func TestTheScorersDelayIsHonoured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &busyOnce{after: "60"}
		score, err := (&HTTPScorer{URL: "http://scorer.test", Metric: "dino", Transport: b}).Score(
			t.Context(), blank(), blank(),
		)
		require.NoError(t, err)
		require.Equal(t, 0.5, score)
		require.Equal(t, time.Minute, b.at[1].Sub(b.at[0]))

		b = &busyOnce{after: "86400"}
		_, err = (&HTTPScorer{URL: "http://scorer.test", Metric: "dino", Transport: b}).Score(
			t.Context(), blank(), blank(),
		)
		require.ErrorIs(t, err, ErrScore)
		require.Len(t, b.at, 1, "a day is not waited for")
	})
}
