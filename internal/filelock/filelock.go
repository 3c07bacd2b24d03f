// Package filelock provides locks on files between processes.
package filelock

import (
	"context"
	"fmt"
	"time"
)

// Lock acquires the lock on a file, which excludes other processes and other calls in
// this one. The system releases it when the process ends; the file is not removed. If
// Lock has to wait, it calls waiting once.
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
