//go:build unix

package vagen

import (
	"errors"
	"os"
	"syscall"
)

// lockFile takes a file's lock, which ends with the process if not before.
func lockFile(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrRunBusy
	}
	return err
}
