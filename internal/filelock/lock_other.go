//go:build !unix && !windows

package filelock

import (
	"errors"
	"fmt"
)

// TryLock says that the system, such as js, has no locks.
func TryLock(string) (unlock func(), held bool, err error) {
	return nil, false, fmt.Errorf("locks between processes: %w", errors.ErrUnsupported)
}
