//go:build unix

package regular

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
)

// TestOnlyRegularFilesAreRead: a pipe without a writer does not block, and a device without
// an end is not read.
func TestOnlyRegularFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(pipe, link))
	for _, path := range []string{pipe, link, dir, "/dev/zero", "/dev/tty", "/dev/null"} {
		if _, err := os.Stat(path); err != nil {
			continue
		}
		_, err := ReadFile(path)
		if path != "/dev/tty" { // without a terminal it cannot be opened
			require.ErrorIs(t, err, ErrNotRegular, path)
		}
		require.ErrorContains(t, err, path)
	}
	_, err := ReadFile(filepath.Join(dir, "absent"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	for _, size := range []int{0, 1, 511, 512, 70_000} {
		want, file := bytes.Repeat([]byte("x"), size), filepath.Join(dir, "file")
		require.NoError(t, os.WriteFile(file, want, 0o600))
		raw, err := ReadFile(file)
		require.NoError(t, err)
		require.Len(t, raw, size)
	}
	if raw, err := os.ReadFile("/proc/version"); err == nil {
		got, err := ReadFile("/proc/version")
		require.NoError(t, err)
		require.Equal(t, raw, got, "a file whose size is given as 0")
	}
}

// TestLargerFilesAreNotRead: the error about a file larger than the limit wraps the caller's.
func TestLargerFilesAreNotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte("12345"), 0o600))
	raw, err := ReadAtMost(path, 5, fs.ErrInvalid)
	require.NoError(t, err)
	require.Equal(t, "12345", string(raw))
	raw, err = ReadAtMost(path, 4, fs.ErrInvalid)
	testkit.Error(t, err, fs.ErrInvalid, "it has 5 bytes, at most 4 bytes are allowed")
	require.Empty(t, raw)
}
