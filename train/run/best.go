package run

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"vagen/internal/durable"
	"vagen/train"
	"vagen/train/rundir"
)

// SaveBest atomically replaces the folder best_actor by a policy, which save writes to an
// empty folder, with best.json beside it. The folder is independent of checkpoints.
func (f *Folder) SaveBest(ctx context.Context, b train.Best, save func(ctx context.Context, dir string) error) error {
	return f.put(rundir.BestName, func(dir string) error {
		if save == nil {
			return errors.New("run: best actor: save is nil")
		}
		if err := save(ctx, dir); err != nil {
			return err
		}
		return durable.WriteJSON(filepath.Join(dir, "best.json"), b)
	})
}

// saveExport atomically creates the folder hf/step_<n>, whose files save writes to an empty
// folder, and returns its path.
func (f *Folder) saveExport(step int, save func(dir string) error) (string, error) {
	name := filepath.Join(exportFolder, fmt.Sprint(rundir.StepPrefix, step))
	return filepath.Join(f.Path, name), f.put(name, save)
}

// put atomically creates or replaces a folder of the run.
func (f *Folder) put(name string, write func(dir string) error) error {
	if err := durable.WriteFolder(filepath.Join(f.Path, name), write); err != nil {
		return fmt.Errorf("run: %s: %w", name, err)
	}
	return nil
}
