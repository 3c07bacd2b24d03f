package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ownerName is the file that identifies the run that the episodes of a folder belong to.
const ownerName = "run.txt"

// owner identifies a run by its random ID, "" before it started, and its folder. A copy
// of a run's folder has the same ID and another folder.
type owner struct{ id, folder string }

// ownerOf returns the run in a folder.
func ownerOf(path string) (owner, error) {
	id, err := folderID(path)
	if err != nil {
		return owner{}, err
	}
	folder, err := filepath.Abs(path)
	return owner{id, folder}, err
}

// recordedOwner returns the run that a folder's episodes belong to. ok is false if it is
// not recorded.
func recordedOwner(dir string) (o owner, ok bool, err error) {
	raw, err := os.ReadFile(filepath.Join(dir, ownerName))
	if errors.Is(err, fs.ErrNotExist) {
		return o, false, nil
	}
	if err != nil {
		return o, false, err
	}
	o.id, o.folder, _ = strings.Cut(strings.TrimSpace(string(raw)), "\n")
	return o, true, nil
}

// check refuses a folder with the episodes of another run. The folder of this run may
// have been moved: then the recorded folder no longer contains the run.
func (o owner) check(dir string) error {
	const advice = "choose another folder, or move the episodes away together with " + ownerName
	was, ok, err := recordedOwner(dir)
	if err != nil {
		return err
	}
	if !ok {
		found, err := filepath.Glob(filepath.Join(dir, "step_*.parquet"))
		if err == nil && len(found) > 0 {
			err = fmt.Errorf("%w: %s contains episodes, but no %s that identifies their run; choose another folder, or move the episodes away", ErrExists, dir, ownerName)
		}
		return err
	}
	if was.id != o.id {
		return fmt.Errorf("%w: %s contains the episodes of the run %s in %s, but this run is in %s; %s", ErrExists, dir, was.id, was.folder, o.folder, advice)
	}
	if was.folder == o.folder {
		return nil
	}
	id, err := folderID(was.folder)
	if err == nil && id == o.id && !sameFile(was.folder, o.folder) {
		err = fmt.Errorf("%w: %s contains the episodes of the run in %s, of which %s is a copy; %s", ErrExists, dir, was.folder, o.folder, advice)
	}
	return err
}

// write records the run as the owner of a folder's episodes.
func (o owner) write(dir string) error {
	if was, ok, err := recordedOwner(dir); err != nil || ok && was == o {
		return err
	}
	tmp := filepath.Join(dir, "."+ownerName+".tmp")
	if err := os.WriteFile(tmp, []byte(o.id+"\n"+o.folder+"\n"), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(dir, ownerName))
}

// sameFile reports whether two paths lead to the same folder.
func sameFile(a, b string) bool {
	x, err1 := os.Stat(a)
	y, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}
