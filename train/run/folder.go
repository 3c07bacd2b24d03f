package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"vagen/internal/silent"
	"vagen/train/config"
	"vagen/train/rundir"
)

// Dir returns the folder of a configuration's run.
func Dir(c *config.Config) string {
	c = cmp.Or(c, new(config.Config))
	if c.Trainer.Dir != "" {
		return c.Trainer.Dir
	}
	return filepath.Join("runs", c.Trainer.Project, c.Trainer.Experiment)
}

// previewFolder returns the error that prepareFolder would return, without creating a folder.
func previewFolder(path string, c *config.Config, must bool) error {
	if err := checkFolder(path, c, must); err != nil {
		return err
	}
	_, err := os.Stat(filepath.Join(path, rundir.ConfigName))
	if err != nil && !must {
		return nil
	}
	if c.Trainer.ResumeMode == "disable" {
		_, err = CreateFolder(path, c) // returns an error, because a run exists
	} else {
		_, err = OpenFolder(path, c)
	}
	return err
}

// checkFolder checks the settings about resuming, and the folders for episodes, against the
// files on disk.
func checkFolder(path string, c *config.Config, must bool) error {
	t := &c.Trainer
	if must && t.ResumeMode == "disable" {
		return fmt.Errorf("%w: --resume needs an existing run, but trainer.resume_mode is disable", config.ErrConfig)
	}
	if t.ResumeFrom != "" {
		if _, err := os.Stat(filepath.Join(t.ResumeFrom, rundir.ManifestName)); err != nil {
			return fmt.Errorf("%w: trainer.resume_from_path: %s is not a checkpoint: %w", config.ErrConfig, t.ResumeFrom, err)
		}
		if within(path, t.ResumeFrom) {
			return fmt.Errorf("%w: trainer.resume_from_path: %s is a checkpoint of the run in %s itself; set another folder for the new run, or resume_mode auto", config.ErrConfig, t.ResumeFrom, path)
		}
	}
	return checkArchives(path, c)
}

// prepareFolder creates the folder of a run, or opens an existing one to resume it, as
// trainer.resume_mode says. With must a run must exist.
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

// logChanges logs differences of a configuration, a line each. A nil log discards them.
func logChanges(log *slog.Logger, text, path string, lines []string) {
	for _, l := range lines {
		silent.Log(log).Warn(text, "in", path, "key", l)
	}
}

// within reports whether a path is below a folder, by names only.
func within(dir, path string) bool {
	a, err1 := filepath.Abs(dir)
	b, err2 := filepath.Abs(path)
	rel, err3 := filepath.Rel(a, b)
	return err1 == nil && err2 == nil && err3 == nil && filepath.IsLocal(rel)
}

// origin returns the checkpoint to resume from: the newest complete one of the run, or that
// in trainer.resume_from_path, with a copy of the metrics up to it. nil means a new run. A
// run that has saved checkpoints of which none is complete is refused, because starting
// again would remove its files.
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
	p.State.Best = nil // its policy is in the folder of the other run
	return p, r.Folder.inherit(filepath.Dir(filepath.Dir(filepath.Clean(from))), &p.State)
}

// remedy is the advice for damaged or missing checkpoints.
const remedy = "nothing was changed: restore the checkpoint (from a copy, or by mounting its disk), or start a new run in another folder with --out"
