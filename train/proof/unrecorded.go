package proof

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"vagen/train/rundir"
)

// unrecorded reports files in the folders of episodes, and policies kept of checkpoints, that no
// line of the chain names.
func (r *Report) unrecorded(ctx context.Context) error {
	last := map[string]int{} // recorded step by folder
	for name := range r.history.named {
		if step, _, ok := rundir.StepOf(path.Base(name)); ok {
			last[path.Dir(name)] = max(last[path.Dir(name)], step)
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(last)) {
		if ctx.Err() != nil {
			return nil // Verify returns its cause
		}
		if err := r.unrecordedEpisodes(folder, last[folder]); err != nil {
			return err
		}
	}
	return r.unrecordedPolicies()
}

// unrecordedEpisodes reports the files of a folder of episodes that are in no record. The process
// may stop between writing a file and recording it.
func (r *Report) unrecordedEpisodes(folder string, last int) error {
	entries, err := os.ReadDir(rundir.Dir(r.Run).Path(folder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("proof: episodes: %w", err)
	}
	for _, e := range entries {
		name := path.Join(folder, e.Name())
		step, _, ok := rundir.StepOf(e.Name())
		if !ok || r.history.named[name] {
			continue
		}
		state := Faulty
		if step >= last && !r.history.ended {
			state = Unfinished
		}
		r.Add("episodes", state, "%s is in no record", name)
	}
	return nil
}

// unrecordedPolicies reports files of policies kept of removed checkpoints that are in no record.
func (r *Report) unrecordedPolicies() error {
	steps, err := rundir.Numbered(rundir.Dir(r.Run).Path(rundir.Checkpoints), rundir.ActorPrefix, "")
	if err != nil {
		return fmt.Errorf("proof: checkpoints: %w", err)
	}
	for _, step := range steps {
		recorded := func(name string) bool {
			return r.history.named[rundir.Checkpoint(step)+"/"+rundir.ActorName+"/"+name]
		}
		if _, err := r.others(fmt.Sprint(rundir.Checkpoints, "/", rundir.ActorPrefix, step), recorded); err != nil {
			return err
		}
	}
	return nil
}

// others reports the files below a folder of the run that are not recorded, and whether there
// are any. A link in place of a recorded folder is followed by the checks of its files.
func (r *Report) others(folder string, recorded func(name string) bool) (found bool, err error) {
	root, err := filepath.EvalSymlinks(rundir.Dir(r.Run).Path(folder))
	if err != nil {
		return false, fmt.Errorf("proof: checkpoints: %w", err)
	}
	err = filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Type()&fs.ModeSymlink != 0 && isFolder(at) {
			return err
		}
		name, err := filepath.Rel(root, at)
		if err == nil && !recorded(filepath.ToSlash(name)) {
			r.Add("checkpoints", Faulty, "%s/%s is in no record", folder, filepath.ToSlash(name))
			found = true
		}
		return err
	})
	if err != nil {
		return false, fmt.Errorf("proof: checkpoints: %w", err)
	}
	return found, nil
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
