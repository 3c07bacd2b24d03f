package plugin

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// lock waits until no other process, and no other call in this one, holds the
// lock on a file. The system releases it when a process dies; the file stays.
func lock(ctx context.Context, path string, log *slog.Logger) (unlock func(), err error) {
	const poll = 100 * time.Millisecond
	for waited := false; ; waited = true {
		unlock, held, err := tryLock(path)
		if err != nil {
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		if !held {
			return unlock, nil
		}
		if !waited {
			log.Info("waiting for another process that installs the XLA plugin", "lock", path)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the lock on %s: %w", path, context.Cause(ctx))
		case <-time.After(poll):
		}
	}
}
