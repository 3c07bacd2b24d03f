package rollout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"vagen/env"
	"vagen/internal/floats"
	"vagen/reward"
)

var (
	// ErrTimeout means that a call of an environment exceeded its time limit.
	ErrTimeout = errors.New("environment did not answer in time")
	// ErrEpisodeTimeout means that the calls of an episode's environment together
	// exceeded the episode's time limit.
	ErrEpisodeTimeout = errors.New("environment exceeded the time limit of the episode")
	// ErrContract means that an environment broke the contract of env.Env.
	ErrContract = errors.New("environment broke its contract")
	// ErrReward means that an episode was played, but that its reward is not known.
	ErrReward = errors.New("the reward of the episode is not known")
)

// call runs f, which calls an environment, with a deadline. A panic becomes an
// error. When f ignores its context and does not return in time, call returns
// without it and abandoned is true; onLate, if not nil, receives the result of f
// when it returns. Until then only f may use the environment, and f must not use
// any data of the caller.
func call[T any](
	ctx context.Context, limit time.Duration, what string, f func(context.Context) (T, error), onLate func(T, error),
) (value T, abandoned bool, err error) {
	type answer struct {
		value T
		err   error
	}
	var zero T
	if err := ctx.Err(); err != nil {
		return zero, false, err
	}
	inner, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done, gone := make(chan answer), make(chan struct{})
	go func() {
		var a answer
		a.value, a.err = recoverPanic(inner, what, f)
		select {
		case done <- a:
		case <-gone:
			if onLate != nil {
				onLate(a.value, a.err)
			}
		}
	}()
	select {
	case a := <-done:
		switch {
		case a.err == nil:
			return a.value, false, nil
		case ctx.Err() == nil && (inner.Err() != nil || errors.Is(a.err, context.DeadlineExceeded)):
			return zero, false, fmt.Errorf("rollout: %s: %w (%v): %w", what, ErrTimeout, limit, a.err)
		}
		return zero, false, fmt.Errorf("rollout: %s: %w", what, a.err)
	case <-inner.Done():
		close(gone)
		if err := ctx.Err(); err != nil {
			return zero, true, err
		}
		return zero, true, fmt.Errorf("rollout: %s: %w (%v)", what, ErrTimeout, limit)
	}
}

// recoverPanic runs f and converts a panic to an error.
func recoverPanic[T any](ctx context.Context, what string, f func(context.Context) (T, error)) (value T, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %s panicked: %v", ErrContract, what, r)
		}
	}()
	return f(ctx)
}

// checkObservation checks an observation against the contract of env.Env.
func checkObservation(o env.Observation) error {
	if marks := strings.Count(o.Text, env.ImageMark); marks != len(o.Images) {
		return fmt.Errorf("%w: the observation has %d image marks and %d images, the numbers must be equal", ErrContract,
			marks, len(o.Images))
	}
	for i, im := range o.Images {
		if im == nil || im.Bounds().Empty() {
			return fmt.Errorf("%w: image %d is empty", ErrContract, i)
		}
	}
	return nil
}

// checkOutcome checks a turn's outcome against the contract of env.Env.
func checkOutcome(o env.Outcome) error {
	if err := checkReward(o.Reward); err != nil {
		return err
	}
	for _, m := range []struct {
		of      string
		metrics env.Metrics
	}{{"turn", o.Turn}, {"trajectory", o.Trajectory}} {
		for _, name := range slices.Sorted(maps.Keys(m.metrics)) {
			if x := m.metrics[name]; !floats.Finite(x) {
				return fmt.Errorf("%w: %s metric %q is %v, must be finite", ErrContract, m.of, name, x)
			}
		}
	}
	if o.Done {
		return nil
	}
	return checkObservation(o.Observation)
}

// checkReward checks a turn's reward against the contract of env.Env.
func checkReward(parts reward.Parts) error {
	for _, p := range parts {
		if !floats.Finite(p.Value) {
			return fmt.Errorf("%w: reward %q is %v, must be finite", ErrContract, p.Name, p.Value)
		}
	}
	if sum := parts.Sum(); !floats.Finite(float64(float32(sum))) {
		return fmt.Errorf("%w: the turn's reward is %v, must fit a float32", ErrContract, sum)
	}
	return nil
}

// endOf returns the End of an episode whose environment failed with err.
func endOf(err error, otherwise End) End {
	switch {
	case errors.Is(err, ErrEpisodeTimeout):
		return EndSlow
	case errors.Is(err, ErrReward):
		return EndReward
	case errors.Is(err, ErrTimeout):
		return EndHang
	case errors.Is(err, ErrContract):
		return EndContract
	case errors.Is(err, env.ErrLost):
		return EndLost
	}
	return otherwise
}
