// Package clock waits without outliving a context.
package clock

import (
	"context"
	"time"
)

// Wait waits for d. If ctx has ended by then, it returns the cause, at once where ctx ends first.
func Wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}
