// Package filelock provides locks on files between processes.
package filelock

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/gofrs/flock"
)

// TryLock acquires the lock on a file unless it is held elsewhere, by another process or another
// call in this one. The system releases it when the process ends; the file is not removed.
func TryLock(path string) (unlock func(), held bool, err error) {
	l := newLock(path)
	ok, err := l.TryLock()
	return func() { l.Close() }, !ok && err == nil, err
}

// newLock opens the file for writing, too: NFS needs that.
func newLock(path string) *flock.Flock {
	return flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o644))
}

// Lock is TryLock that waits until the lock is free. If it has to wait, it calls waiting once.
func Lock(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	unlock, held, err := TryLock(path)
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	if !held {
		return unlock, nil
	}
	waiting()
	l := newLock(path)
	if _, err = l.TryLockContext(ctx, 100*time.Millisecond); ctx.Err() != nil && err != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("waiting for the lock on %s: %w", path, err)
	}
	return func() { l.Close() }, nil
}
