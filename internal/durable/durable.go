// Package durable writes files and folders so that, whenever the machine stops, the old
// content or the new one is there, and checks folders against sums of their files.
package durable

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Unfinished ends the names of files and folders that are being written.
const Unfinished = ".tmp"

// Replace puts a written folder in the place of another of the same meaning.
// Between the two renames the old folder still stands, under a name that is not a
// checkpoint's: a run that stops right there goes on from the one before, or puts
// this one back if there is none.
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
	if err := syncPath(filepath.Dir(to)); err != nil {
		return err
	}
	return os.RemoveAll(old)
}

// WriteFile writes a file that is, whenever the machine stops, the old one or the
// new one.
func WriteFile(path string, data []byte) error {
	tmp := path + Unfinished
	if err := os.WriteFile(tmp, data, 0o644); err != nil {
		return err
	}
	if err := syncPath(tmp); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// SyncTree makes everything below dir durable.
func SyncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, syncPath(path))
	})
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// WriteJSON writes a value that people read, too.
func WriteJSON(path string, v any) error {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false) // responses are full of tags
	enc.SetIndent("", "  ")
	return errors.Join(enc.Encode(v), out.Close())
}

// Discarded ends the name of a folder that is being removed, or that a newer one replaces.
const Discarded = ".old"
