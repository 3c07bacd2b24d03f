// Package regular opens files for reading and refuses anything but regular files: opening a
// named pipe, for example, would block, and a device may have no end. All files of the module
// that are read are opened here.
package regular

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
)

// ErrNotRegular is wrapped by errors about paths of folders, pipes and devices.
var ErrNotRegular = errors.New("not a regular file")

// Open opens a regular file for reading.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w", path, ErrNotRegular)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// ReadFile returns the content of a regular file.
func ReadFile(path string) ([]byte, error) { return ReadAtMost(path, math.MaxInt64, nil) }

// ReadAtMost returns the content of a regular file of at most limit bytes. The error about a larger
// one, which is not read, wraps tooLarge.
func ReadAtMost(path string, limit int64, tooLarge error) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	var raw bytes.Buffer
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.Size() > limit:
		err = fmt.Errorf("%s: %w: it has %d bytes, at most %d bytes are allowed", path, tooLarge, info.Size(), limit)
	default:
		raw.Grow(int(min(info.Size(), 1<<30)) + bytes.MinRead) // the size need not be right, as below /proc
		_, err = raw.ReadFrom(f)
	}
	return raw.Bytes(), errors.Join(err, f.Close())
}
