package rollout

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"vagen/env"
)

var (
	// ErrTimeout means that an environment did not answer in time.
	ErrTimeout = errors.New("environment did not answer in time")
	// ErrContract means that an environment broke the contract of env.Env.
	ErrContract = errors.New("environment broke its contract")
)

// call runs f, which talks to an environment, with a deadline. A panic becomes an
// error. When f ignores its context and does not return in time it is left
// behind; it must then not touch anything of the caller's, which is why it
// returns its result instead of storing it.
func call[T any](ctx context.Context, limit time.Duration, what string, f func(context.Context) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	inner, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := make(chan answer, 1)
	go func() {
		var a answer
		defer func() {
			if r := recover(); r != nil {
				a.err = fmt.Errorf("%w: %s panicked: %v", ErrContract, what, r)
			}
			done <- a
		}()
		a.value, a.err = f(inner)
	}()
	var zero T
	select {
	case a := <-done:
		if a.err != nil && errors.Is(a.err, context.DeadlineExceeded) && ctx.Err() == nil {
			return zero, fmt.Errorf("rollout: %s: %w (%v)", what, ErrTimeout, limit)
		}
		if a.err != nil {
			return zero, fmt.Errorf("rollout: %s: %w", what, a.err)
		}
		return a.value, nil
	case <-inner.Done():
		if err := ctx.Err(); err != nil {
			return zero, err
		}
		return zero, fmt.Errorf("rollout: %s: %w (%v)", what, ErrTimeout, limit)
	}
}

// checkObservation holds an observation against the contract.
func checkObservation(o env.Observation) error {
	if marks := strings.Count(o.Text, env.ImageMark); marks != len(o.Images) {
		return fmt.Errorf("%w: the text has %d image marks, but there are %d images", ErrContract, marks, len(o.Images))
	}
	for i, im := range o.Images {
		if im == nil || im.Bounds().Empty() {
			return fmt.Errorf("%w: image %d is empty", ErrContract, i)
		}
	}
	return nil
}

// checkOutcome holds a turn's outcome against the contract.
func checkOutcome(o env.Outcome) error {
	for _, p := range o.Reward {
		if math.IsNaN(p.Value) || math.IsInf(p.Value, 0) {
			return fmt.Errorf("%w: reward %q is %v, must be finite", ErrContract, p.Name, p.Value)
		}
	}
	if o.Done {
		return nil
	}
	return checkObservation(o.Observation)
}

// endOf says how an episode ends whose environment failed with err.
func endOf(err error, otherwise End) End {
	switch {
	case errors.Is(err, ErrTimeout):
		return EndHang
	case errors.Is(err, ErrContract):
		return EndContract
	}
	return otherwise
}
