// Package clock waits no longer than a context allows.
package clock

import (
	"context"
	"time"
)

// Wait waits until d has passed or ctx ends, and returns the cause if ctx has ended.
func Wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}
