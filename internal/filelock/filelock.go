// Package filelock keeps processes that change the same files apart.
package filelock

import (
	"context"
	"fmt"
	"time"
)

// Lock waits until no other process, and no other call in this one, holds the
// lock on a file. The system releases it when a process dies; the file stays.
// waiting is called once before it waits.
func Lock(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	const poll = 100 * time.Millisecond
	for waited := false; ; waited = true {
		unlock, held, err := TryLock(path)
		if err != nil {
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		if !held {
			return unlock, nil
		}
		if !waited {
			waiting()
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the lock on %s: %w", path, context.Cause(ctx))
		case <-time.After(poll):
		}
	}
}
