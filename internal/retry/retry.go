// Package retry has the rule for the delay before a request is repeated: it grows
// exponentially with jitter from a seed, and is at least what the server asks for in the
// header Retry-After. The wait ends at the caller's deadline.
package retry

import (
	"context"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"vagen/internal/clock"
)

// Longest is the longest delay that a server may ask for. A request that it does not want to
// see for longer is not repeated.
const Longest = time.Hour

// Backoff is a delay that grows. Before retry n, counted from 0, it is
//
//	min(Max, Min·Factorⁿ) · (JitterMin + JitterRange·u)
//
// with u uniform in [0, 1).
type Backoff struct {
	Min, Max               time.Duration
	Factor                 float64
	JitterMin, JitterRange float64
}

// Doubling doubles the delay from least up to most, with u between half and all of it.
func Doubling(least, most time.Duration) Backoff { return Backoff{least, most, 2, 0.5, 0.5} }

// Steady is Doubling without jitter, for a caller that is alone.
func Steady(least, most time.Duration) Backoff { return Backoff{least, most, 2, 1, 0} }

// Delay returns the delay before retry n.
func (b Backoff) Delay(n int, u float64) time.Duration {
	if b.Min <= 0 {
		return 0
	}
	d := min(float64(b.Max), float64(b.Min)*math.Pow(b.Factor, float64(max(0, n))))
	return time.Duration(min(d*(b.JitterMin+b.JitterRange*u), math.MaxInt64/2))
}

// Jitter returns a function that draws u from two seeds.
func Jitter(a, b uint64) func() float64 { return rand.New(rand.NewPCG(a, b)).Float64 }

// Seed returns a seed for a caller without one, from a text that differs between callers.
func Seed(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	return h.Sum64()
}

// Pauses are the delays between the attempts of one request.
type Pauses struct {
	backoff Backoff
	u       func() float64
	retries int
}

// Pauses returns the delays before retries 0, 1, 2, …
func (b Backoff) Pauses(u func() float64) *Pauses { return &Pauses{backoff: b, u: u} }

// Next returns the delay before the next retry of a request to a server that asks for the
// delay after, 0 for none. again is false if it asks for more than Longest.
func (p *Pauses) Next(after time.Duration) (delay time.Duration, again bool) {
	delay = p.backoff.Delay(p.retries, p.u())
	p.retries++
	return Honour(delay, after)
}

// Wait waits for the next delay or until ctx ends, and returns the cause if ctx has ended.
func (p *Pauses) Wait(ctx context.Context) error {
	delay, _ := p.Next(0)
	return clock.Wait(ctx, delay)
}

// Reset begins anew with retry 0.
func (p *Pauses) Reset() { p.retries = 0 }

// Honour returns the longer one of a delay and of what a server asks for. again is false if
// that is more than Longest.
func Honour(delay, after time.Duration) (longer time.Duration, again bool) {
	return max(delay, min(after, Longest)), after <= Longest
}

// After returns the delay that an answer asks for: in seconds or as a date in Retry-After, or
// in milliseconds in Retry-After-Ms, which precedes it. 0 is none; what has another form is
// ignored.
func After(h http.Header, now time.Time) time.Duration {
	if d, ok := number(h.Get("Retry-After-Ms"), time.Millisecond); ok {
		return d
	}
	text := h.Get("Retry-After")
	if d, ok := number(text, time.Second); ok {
		return d
	}
	if at, err := http.ParseTime(strings.TrimSpace(text)); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// number reads a number of units that is not negative.
func number(text string, unit time.Duration) (time.Duration, bool) {
	x, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(x >= 0) {
		return 0, false
	}
	return time.Duration(min(x*float64(unit), math.MaxInt64/2)), true
}
