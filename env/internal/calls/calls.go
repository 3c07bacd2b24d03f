// Package calls checks the order in which the methods of an environment are called.
package calls

import (
	"context"
	"errors"
	"fmt"
)

// Errors that a Guard's errors wrap; package env exports them.
var (
	ErrNotReset = errors.New("Reset has not been called")
	ErrClosed   = errors.New("the environment is closed")
	ErrSeed     = errors.New("the seed must not be negative")
)

// Guard rejects calls in a wrong order. Its errors begin with the name of the
// environment and wrap the context's cause or one of the errors above.
type Guard struct {
	Env    string
	closed bool
}

// Open returns an error after Close or when the context has ended.
func (g *Guard) Open(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", g.Env, context.Cause(ctx))
	case g.Env == "":
		return errors.New("the environment is a zero value, must be made by its package")
	case g.closed:
		return fmt.Errorf("%s: %w", g.Env, ErrClosed)
	}
	return nil
}

// Reset is Open for Reset, whose seed must not be negative.
func (g *Guard) Reset(ctx context.Context, seed int64) error {
	if err := g.Open(ctx); err != nil {
		return err
	}
	if seed < 0 {
		return fmt.Errorf("%s: reset: seed %d: %w", g.Env, seed, ErrSeed)
	}
	return nil
}

// Step is Open for Step, which needs an episode.
func (g *Guard) Step(ctx context.Context, episode bool) error {
	if err := g.Open(ctx); err != nil {
		return err
	}
	if !episode {
		return fmt.Errorf("%s: step: %w", g.Env, ErrNotReset)
	}
	return nil
}

// Close makes all later calls fail. It returns nil.
func (g *Guard) Close() error {
	g.closed = true
	return nil
}
