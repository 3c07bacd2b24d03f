//go:build unix

package durable

import (
	"errors"
	"os"
	"syscall"
)

// lockFile takes a file's lock, which ends with the process if not before.
func LockFile(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrBusy
	}
	return err
}
