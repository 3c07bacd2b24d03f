// Package clock waits for a time or for others, no longer than a context allows, and converts seconds of settings.
package clock

import (
	"context"
	"sync"
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

// Join waits until the work of a group is done or ctx ends, and returns the cause if it is not done.
func Join(ctx context.Context, group *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Seconds converts a setting. More than 30 years, which a Duration might not hold, are 30 years.
func Seconds(s float64) time.Duration { return time.Duration(min(s, 1e9) * float64(time.Second)) }
