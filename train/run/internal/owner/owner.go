// Package owner records in a folder of episodes which run writes to it.
package owner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"vagen/internal/durable"
	"vagen/internal/regular"
	"vagen/train/rundir"
)

// ErrExists means that a folder belongs to another run.
var ErrExists = errors.New("the folder already contains a run")

// Run identifies a run by its random ID, "" before it started, and its folder. A copy
// of a run's folder has the same ID and another folder.
type Run struct{ ID, Folder string }

// Of returns the run in a folder.
func Of(path string) (Run, error) {
	id, err := IDOf(path)
	if err != nil {
		return Run{}, err
	}
	folder, err := filepath.Abs(path)
	return Run{id, folder}, err
}

// Recorded returns the run that a folder's episodes belong to. ok is false if it is
// not recorded.
func Recorded(dir string) (o Run, ok bool, err error) {
	raw, err := regular.ReadFile(filepath.Join(dir, rundir.OwnerName))
	if errors.Is(err, fs.ErrNotExist) {
		return o, false, nil
	}
	if err != nil {
		return o, false, err
	}
	o.ID, o.Folder, _ = strings.Cut(strings.TrimSpace(string(raw)), "\n")
	return o, true, nil
}

// Check refuses a folder with the episodes of another run. The folder of this run may
// have been moved: then the recorded folder no longer contains the run.
func (o Run) Check(dir string) error {
	const advice = "choose another folder, or move the episodes away together with " + rundir.OwnerName
	was, ok, err := Recorded(dir)
	if err != nil {
		return err
	}
	if !ok {
		found, err := fs.Glob(os.DirFS(dir), "step_*.parquet") // dir is no pattern
		if err == nil && len(found) > 0 {
			err = fmt.Errorf("%w: %s contains episodes, but no %s that identifies their run; choose another folder, "+
				"or move the episodes away", ErrExists, dir, rundir.OwnerName)
		}
		return err
	}
	switch {
	case was.ID != o.ID && was.Folder == o.Folder:
		return fmt.Errorf("%w: %s contains the episodes of the run %s in %s, but the ID in %s is %q: "+
			"if it is still that run, restore the ID; otherwise %s", ErrExists, dir, was.ID, was.Folder, rundir.IDName, o.ID, advice)
	case was.ID != o.ID:
		return fmt.Errorf("%w: %s contains the episodes of the run %s in %s, but this run is in %s; %s", ErrExists, dir,
			was.ID, was.Folder, o.Folder, advice)
	case was.Folder == o.Folder:
		return nil
	}
	id, err := IDOf(was.Folder)
	if err == nil && id == o.ID && !sameFile(was.Folder, o.Folder) {
		err = fmt.Errorf("%w: %s contains the episodes of the run in %s, of which %s is a copy; %s", ErrExists, dir,
			was.Folder, o.Folder, advice)
	}
	return err
}

// Write records the run as the owner of a folder's episodes.
func (o Run) Write(dir string) error {
	if was, ok, err := Recorded(dir); err != nil || ok && was == o {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, rundir.OwnerName), []byte(o.ID+"\n"+o.Folder+"\n"))
}

// sameFile reports whether two paths lead to the same folder.
func sameFile(a, b string) bool {
	x, err1 := os.Stat(a)
	y, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}

// IDOf returns the random ID of the run in a folder, "" if it has none.
func IDOf(path string) (string, error) {
	raw, err := regular.ReadFile(filepath.Join(path, rundir.IDName))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("run: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}
