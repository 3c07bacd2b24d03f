package retry

import (
	"context"
	"errors"
	"math"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/internal/clock"
)

// TestDelaysGrowWithJitter compares the delays with the formula.
func TestDelaysGrowWithJitter(t *testing.T) {
	b := Backoff{Min: time.Second, Max: 10 * time.Second, Factor: 3, JitterMin: 0.7, JitterRange: 0.6}
	for n, want := range map[int]float64{-1: 1, 0: 1, 1: 3, 2: 9, 3: 10, 1 << 30: 10} {
		require.InDelta(t, 0.7*want, b.Delay(n, 0).Seconds(), 1e-9)
		require.InDelta(t, 1.0*want, b.Delay(n, 0.5).Seconds(), 1e-9)
	}
	require.Equal(t, time.Second/2, Doubling(time.Second, time.Minute).Delay(0, 0))
	require.Equal(t, 16*time.Second, Steady(time.Second, time.Minute).Delay(4, 0.9))
	require.Zero(t, Backoff{Factor: math.Inf(1), JitterMin: 1}.Delay(3, 0.5))
	require.Positive(t, Backoff{Min: math.MaxInt64, Max: math.MaxInt64, Factor: 2, JitterMin: 9}.Delay(3, 0.5))
}

// TestJitterIsThatOfTheSeeds: equal seeds give equal delays, others do not.
func TestJitterIsThatOfTheSeeds(t *testing.T) {
	draw := func(a, b uint64) (all []time.Duration) {
		p := Doubling(time.Second, time.Minute).Pauses(Jitter(a, b))
		for range 5 {
			d, again := p.Next(0)
			require.True(t, again)
			all = append(all, d)
		}
		return all
	}
	require.Equal(t, draw(1, 2), draw(1, 2))
	require.NotEqual(t, draw(1, 2), draw(1, 3))
	require.NotEqual(t, draw(1, 2), draw(2, 2))
	require.NotEqual(t, Seed("a"), Seed("b"))
	p := Steady(time.Second, time.Minute).Pauses(Jitter(0, 0))
	p.Next(0)
	p.Next(0)
	p.Reset()
	d, _ := p.Next(0)
	require.Equal(t, time.Second, d)
}

// TestRetryAfter reads both forms of RFC 9110, section 10.2.3, and milliseconds.
func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 10, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		seconds, ms string
		want        time.Duration
	}{
		{"", "", 0}, {"7", "", 7 * time.Second}, {" 7.5 ", "", 7500 * time.Millisecond},
		{"9", "2500", 2500 * time.Millisecond},
		{"9", "soon", 9 * time.Second}, {"-5", "", 0}, {"NaN", "", 0}, {"soon", "", 0}, {"1e300", "", 1 << 62},
		{"Fri, 02 Jan 2026 10:00:30 GMT", "", 30 * time.Second}, {"Fri, 02 Jan 2026 09:00:30 GMT", "", 0},
	} {
		h := http.Header{}
		h.Set("Retry-After", c.seconds)
		h.Set("Retry-After-Ms", c.ms)
		require.Equal(t, c.want, After(h, now), "%+v", c)
	}
}

// TestTheServersDelayIsHonouredUpToTheDeadline: it replaces shorter own ones, however long the
// longest own one is; the wait ends with the caller's context.
func TestTheServersDelayIsHonouredUpToTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := Doubling(time.Second, 8*time.Second)
		begin := time.Now()
		d, again := b.Pauses(Jitter(0, 0)).Next(time.Minute)
		require.True(t, again)
		require.NoError(t, clock.Wait(t.Context(), d))
		require.Equal(t, time.Minute, time.Since(begin))

		begin, late := time.Now(), errors.New("late")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Second, late)
		defer cancel()
		require.ErrorIs(t, clock.Wait(ctx, d), late)
		require.Equal(t, 20*time.Second, time.Since(begin))
	})
	d, again := Doubling(time.Second, time.Second).Pauses(Jitter(0, 0)).Next(time.Millisecond)
	require.True(t, again)
	require.GreaterOrEqual(t, d, time.Second/2, "not shorter than the own one")
	d, again = Honour(0, Longest+1)
	require.False(t, again)
	require.Equal(t, Longest, d)
}
