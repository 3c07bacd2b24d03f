package launch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"vagen"
)

// RunDir is the folder that a configuration names for its run.
func RunDir(c *vagen.Config) string {
	if c.Trainer.Dir != "" {
		return c.Trainer.Dir
	}
	return filepath.Join("runs", c.Trainer.Project, c.Trainer.Experiment)
}

// Folder makes the folder of a run, or opens the one that is there to go on with
// it, as trainer.resume_mode says. With must there has to be a run.
func Folder(path string, c *vagen.Config, must bool, log *slog.Logger) (*vagen.RunFolder, error) {
	t := &c.Trainer
	if must && t.ResumeMode == "disable" {
		return nil, fmt.Errorf("%w: a run shall go on, but trainer.resume_mode is disable", vagen.ErrConfig)
	}
	if t.ResumeFrom != "" {
		if _, err := os.Stat(filepath.Join(t.ResumeFrom, "manifest.json")); err != nil {
			return nil, fmt.Errorf("%w: trainer.resume_from_path: %s is not a checkpoint: %w", vagen.ErrConfig, t.ResumeFrom, err)
		}
		if within(path, t.ResumeFrom) {
			return nil, fmt.Errorf("%w: trainer.resume_from_path: %s is of the run in %s itself; choose another folder for what branches off, or resume_mode auto", vagen.ErrConfig, t.ResumeFrom, path)
		}
	}
	if t.ResumeMode == "disable" {
		return vagen.CreateRun(path, c)
	}
	f, err := vagen.OpenRun(path, c, t.AllowChange)
	if errors.Is(err, fs.ErrNotExist) && !must {
		return vagen.CreateRun(path, c)
	}
	if err == nil {
		shout(log, "the configuration of the run was changed", path, f.Changed)
	}
	return f, err
}

// shout logs differences, a line each.
func shout(log *slog.Logger, text, path string, lines []string) {
	if log == nil {
		return
	}
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

// origin finds the checkpoint to go on from: the newest whole one of the run, or
// the one that it branches off from, whose run lends its history. nil is none.
func (r *Run) origin(ctx context.Context) (*vagen.Checkpoint, error) {
	p, err := r.points.Latest(ctx)
	if err == nil {
		return p, r.points.Tidy(p.State.Step)
	}
	if !errors.Is(err, vagen.ErrNoCheckpoint) {
		return nil, err
	}
	from := r.Config.Trainer.ResumeFrom
	if from == "" {
		return nil, nil
	}
	if p, err = vagen.OpenCheckpoint(ctx, from); err != nil {
		return nil, err
	}
	p.State.Best = nil // its policy stays with the other run
	return p, r.Folder.Inherit(filepath.Dir(filepath.Dir(filepath.Clean(from))))
}
