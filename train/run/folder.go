package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"vagen/train/config"
)

// Dir is the folder that a configuration names for its run.
func Dir(c *config.Config) string {
	if c.Trainer.Dir != "" {
		return c.Trainer.Dir
	}
	return filepath.Join("runs", c.Trainer.Project, c.Trainer.Experiment)
}

// previewFolder reports what prepareFolder would refuse, and makes no folder.
func previewFolder(path string, c *config.Config, must bool) error {
	if err := checkFolder(path, c, must); err != nil {
		return err
	}
	_, err := os.Stat(filepath.Join(path, "config.yaml"))
	if err != nil && !must {
		return nil
	}
	if c.Trainer.ResumeMode == "disable" {
		_, err = CreateFolder(path, c) // refused: there is a run
	} else {
		_, err = OpenFolder(path, c)
	}
	return err
}

// checkFolder compares the settings about resuming, and the folders for episodes, with
// what is on the disk.
func checkFolder(path string, c *config.Config, must bool) error {
	t := &c.Trainer
	if must && t.ResumeMode == "disable" {
		return fmt.Errorf("%w: --resume needs an existing run, but trainer.resume_mode is disable", config.ErrConfig)
	}
	if t.ResumeFrom != "" {
		if _, err := os.Stat(filepath.Join(t.ResumeFrom, "manifest.json")); err != nil {
			return fmt.Errorf("%w: trainer.resume_from_path: %s is not a checkpoint: %w", config.ErrConfig, t.ResumeFrom, err)
		}
		if within(path, t.ResumeFrom) {
			return fmt.Errorf("%w: trainer.resume_from_path: %s is of the run in %s itself; choose another folder for what branches off, or resume_mode auto", config.ErrConfig, t.ResumeFrom, path)
		}
	}
	return checkArchives(path, c)
}

// prepareFolder creates the folder of a run, or opens an existing one to resume it, as
// trainer.resume_mode says. With must there has to be a run.
func prepareFolder(path string, c *config.Config, must bool, log *slog.Logger) (*Folder, error) {
	if err := checkFolder(path, c, must); err != nil {
		return nil, err
	}
	t := &c.Trainer
	if t.ResumeMode == "disable" {
		return CreateFolder(path, c)
	}
	f, err := OpenFolder(path, c)
	if errors.Is(err, fs.ErrNotExist) && !must {
		return CreateFolder(path, c)
	}
	if err == nil {
		logChanges(log, "the configuration of the run was changed", path, f.Changed)
	}
	return f, err
}

// logChanges logs differences of a configuration, a line each.
func logChanges(log *slog.Logger, text, path string, lines []string) {
	for _, l := range lines {
		log.Warn(text, "in", path, "key", l)
	}
}

// within reports whether a path is below a folder, as far as names tell.
func within(dir, path string) bool {
	a, err1 := filepath.Abs(dir)
	b, err2 := filepath.Abs(path)
	rel, err3 := filepath.Rel(a, b)
	return err1 == nil && err2 == nil && err3 == nil && filepath.IsLocal(rel)
}

// origin finds the checkpoint to resume from: the newest whole one of the run, or
// the one that it branches off from, whose metrics until then are copied. nil means
// that the run begins. A run that has saved and of which no whole checkpoint is found
// is refused: beginning anew would remove what is left of it.
func (r *Run) origin(ctx context.Context) (*Checkpoint, error) {
	p, err := r.points.Latest(ctx)
	if err == nil {
		return p, r.points.Tidy(p.State.Step)
	}
	if !errors.Is(err, ErrNoCheckpoint) {
		return nil, err
	}
	lost := err
	if errors.Is(lost, ErrTorn) {
		return nil, fmt.Errorf("%w\n%s", lost, remedy)
	}
	from := r.Config.Trainer.ResumeFrom
	if from != "" {
		if p, err = OpenCheckpoint(ctx, from); err != nil {
			return nil, err
		}
	}
	saved, ok, err := r.Folder.lastSave()
	if err != nil {
		return nil, err
	}
	if ok && (p == nil || saved > p.State.Step) {
		return nil, fmt.Errorf("%w, but its metrics.jsonl reports a checkpoint of step %d\n%s", lost, saved, remedy)
	}
	if p == nil {
		return nil, nil
	}
	p.State.Best = nil // its policy stays with the other run
	return p, r.Folder.inherit(filepath.Dir(filepath.Dir(filepath.Clean(from))), &p.State)
}

// remedy says what to do about checkpoints that are damaged or missing.
const remedy = "nothing was changed: restore the checkpoint (a copy of it, or the disk that it is on), or begin a new run in another folder with --out"
