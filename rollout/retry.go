package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"vagen/env"
	"vagen/internal/clock"
	"vagen/internal/retry"
	"vagen/internal/rng"
)

// Retry defines which unusable episodes are played again from their start. The new
// attempt has the same level and its own sampling seed, so that a batch depends on
// whether a failure happened, not on when.
type Retry struct {
	// Times is how often an episode with this End is played again; an End that is
	// not listed is final. All attempts of the episode count, whatever their End.
	Times map[End]int
	// Backoff is waited before each attempt.
	Backoff Backoff
}

// DefaultRetry retries failures that may not happen again: an environment that could
// not be created, failed, hung or ended with its service, rewards that are not known, and responses that
// cannot be used.
func DefaultRetry() Retry {
	return Retry{
		Times:   map[End]int{EndSetup: 2, EndEnv: 1, EndLost: 3, EndHang: 1, EndReward: 1, EndEmpty: 3, EndVision: 1},
		Backoff: DefaultBackoff(),
	}
}

func (r *Retry) check() error {
	for end, n := range r.Times {
		if n < 0 {
			return fmt.Errorf("rollout: Retry: Times of %q is %d, must not be negative", end, n)
		}
		if n > 0 && (end.Usable() || end == "") {
			return fmt.Errorf("rollout: Retry: Times has %q, only ends of unusable episodes are allowed", end)
		}
	}
	return r.Backoff.check()
}

// repeats reports whether a trajectory will be played again. An unknown environment and
// a snapshot that cannot be restored are not retried, because they fail every time.
func (r *Retry) repeats(t *Trajectory) bool {
	return !t.End.Usable() && t.Attempt < r.Times[t.End] && !errors.Is(t.Err, env.ErrUnknown) &&
		!errors.Is(t.Err, env.ErrSnapshot) && !errors.Is(t.Err, env.ErrNoSnapshot)
}

// decideRetry sets whether an episode that has ended will be played again.
func (p *Player) decideRetry(l *live) {
	l.retry = l.ended && p.Retry.repeats(l.Trajectory)
	l.followed = l.ended && !l.retry && p.Next != nil
}

// restart waits for the backoff and starts an episode again.
func (p *Player) restart(ctx context.Context, l *live) {
	l.restart = false
	if l.env != nil {
		p.closeEnv(l.Env, l.env)
		l.env = nil
	}
	if l.Attempt > 0 {
		clock.Wait(ctx, p.Retry.Backoff.Delay(l.Attempt, retry.Jitter(l.seed, uint64(rng.Sample))(), 0))
	}
	p.open(ctx, l)
}

// Backoff is a delay that grows from attempt to attempt.
type Backoff struct {
	Min, Max   time.Duration // first and longest delay
	Multiplier float64       // factor from one attempt to the next; must be at least 1 where Min is positive
	Jitter     float64       // share of the delay that is added at random, so that retries do not happen all at once
}

// DefaultBackoff starts with half a second and doubles up to eight seconds, with a
// jitter of a quarter.
func DefaultBackoff() Backoff {
	return Backoff{Min: time.Second / 2, Max: 8 * time.Second, Multiplier: 2, Jitter: 0.25}
}

func (b *Backoff) check() error {
	if b.Min < 0 || b.Max < b.Min || !(b.Multiplier >= 1 || b.Min == 0) || !(b.Jitter >= 0 && b.Jitter <= 1) {
		return fmt.Errorf("rollout: Backoff: Min %v, Max %v, Multiplier %v and Jitter %v: want 0 ≤ Min ≤ Max, Multiplier of at least 1 and Jitter in [0, 1]",
			b.Min, b.Max, b.Multiplier, b.Jitter)
	}
	return nil
}

// Delay is how long to wait before an attempt; the first retry is attempt 1:
//
//	min(Max, Min·Multiplierⁿ⁻¹) · (1 + Jitter·u)
//
// with u in [0, 1) drawn by the caller. A positive after is the delay that the other
// side asked for; it is used instead, clipped to [Min, Max].
func (b Backoff) Delay(attempt int, u float64, after time.Duration) time.Duration {
	if after > 0 {
		return min(max(after, b.Min), b.Max)
	}
	delays := retry.Backoff{Min: b.Min, Max: b.Max, Factor: b.Multiplier, JitterMin: 1, JitterRange: b.Jitter}
	return delays.Delay(attempt-1, u)
}
