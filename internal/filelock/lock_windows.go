package filelock

import (
	"errors"
	"syscall"
)

// TryLock acquires the lock unless it is held elsewhere: it opens the file without
// sharing.
func TryLock(path string) (unlock func(), held bool, err error) {
	const sharingViolation = syscall.Errno(32)
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return nil, false, err
	}
	h, err := syscall.CreateFile(name, syscall.GENERIC_WRITE, 0, nil, syscall.OPEN_ALWAYS, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	if errors.Is(err, sharingViolation) {
		return nil, true, nil
	}
	if err != nil {
		return nil, false, err
	}
	return func() { syscall.CloseHandle(h) }, false, nil
}
