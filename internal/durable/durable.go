// Package durable writes files and folders atomically, so that after a crash at any time
// either the old or the new content exists, and computes checksums of folders.
package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"

	"vagen/internal/jsontext"
	"vagen/internal/regular"
)

// Unfinished is the suffix of files and folders that are being written.
const Unfinished = ".tmp"

// Replace renames the folder from to to, replacing an existing folder. Between the two
// renames the old folder exists with the suffix Discarded: after a crash at that moment
// the caller can restore it.
func Replace(from, to string) error {
	old := to + Discarded
	if err := os.RemoveAll(old); err != nil {
		return err
	}
	moved := os.Rename(to, old)
	if moved != nil && !errors.Is(moved, fs.ErrNotExist) {
		return moved
	}
	if err := os.Rename(from, to); err != nil {
		if moved == nil {
			err = errors.Join(err, os.Rename(old, to))
		}
		return err
	}
	if err := Sync(filepath.Dir(to)); err != nil {
		return err
	}
	return os.RemoveAll(old)
}

// WriteFolder writes a folder atomically, in the place of an existing one: write fills an empty folder, which gets the
// name at the end. See Recover for a process that is killed meanwhile.
func WriteFolder(final string, write func(dir string) error) error {
	dir := final + Unfinished
	err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755))
	if err == nil {
		err = write(dir)
	}
	if err == nil {
		err = SyncTree(dir)
	}
	if err == nil {
		err = Replace(dir, final)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	return nil
}

// Recover removes what a killed process left of WriteFolder. If the folder had no successor yet, it has its name again.
func Recover(final string) error {
	_, err := os.Stat(final)
	if errors.Is(err, fs.ErrNotExist) {
		err = os.Rename(final+Discarded, final)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return errors.Join(os.RemoveAll(final+Discarded), os.RemoveAll(final+Unfinished))
}

// WriteFile writes a file atomically: after a crash at any time it has the old or the
// new content. After an error nothing of the new content is left. A device is not replaced by a file.
// With several calls at the same time, also of other processes, the file has the content of one of them.
func WriteFile(path string, data []byte) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s: %w", path, regular.ErrNotRegular)
	}
	RemoveUnfinished(path)
	for attempt := 1; ; attempt++ {
		f, err := CreateTemp(path)
		if err != nil {
			return err
		}
		if _, err = f.Write(data); err == nil {
			err = f.Sync()
		}
		// Each other call may have removed our file once, before it was complete.
		if err = Commit(f, path, err); !errors.Is(err, fs.ErrNotExist) || attempt == 100 {
			return err
		}
	}
}

// RemoveUnfinished removes the files of CreateTemp for a path that killed processes left.
func RemoveUnfinished(path string) {
	dir, base := filepath.Split(path)
	entries, _ := os.ReadDir(filepath.Clean(dir))
	for _, e := range entries {
		id, of := strings.CutPrefix(e.Name(), "."+base+".")
		if id, tmp := strings.CutSuffix(id, Unfinished); of && tmp && strings.Trim(id, "-0123456789") == "" {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

var temps atomic.Int64

// CreateTemp creates a file beside path with a name of its own and the permissions that a new file gets.
func CreateTemp(path string) (*os.File, error) {
	dir, base := filepath.Split(path)
	for {
		name := fmt.Sprintf(".%s.%d-%d%s", base, os.Getpid(), temps.Add(1), Unfinished)
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// Commit closes a temporary file and gives it its path. If it failed already, or that fails, it removes the
// file.
func Commit(f *os.File, path string, failed error) error {
	err := errors.Join(failed, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// SyncTree syncs all files and folders below dir.
func SyncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, Sync(path))
	})
}

// Sync syncs a file or folder.
func Sync(path string) error {
	flag := os.O_RDONLY
	if runtime.GOOS == "windows" { // which syncs only files that are open for writing, and no folders
		if i, err := os.Stat(path); err != nil || i.IsDir() {
			return err
		}
		flag = os.O_RDWR
	}
	f, err := os.OpenFile(path, flag, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// WriteJSON is WriteFile of a value as indented JSON.
func WriteJSON(path string, v any) error {
	var out bytes.Buffer
	if err := jsontext.Write(&out, v); err != nil {
		return err
	}
	return WriteFile(path, out.Bytes())
}

// Discarded is the suffix of a folder that is being removed or replaced.
const Discarded = ".old"
