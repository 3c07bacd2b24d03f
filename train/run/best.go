package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"vagen/internal/durable"
	"vagen/train"
)

// SaveBest puts a policy into the folder best_actor, in place of the one before,
// with best.json beside it. save writes the policy to a folder that is empty. The
// folder is never half written, and has nothing to do with checkpoints.
func (f *Folder) SaveBest(ctx context.Context, b train.Best, save func(ctx context.Context, dir string) error) error {
	return f.put(bestFolder, func(dir string) error {
		if err := save(ctx, dir); err != nil {
			return err
		}
		raw, err := json.MarshalIndent(b, "", "  ")
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, "best.json"), append(raw, '\n'), 0o644)
	})
}

// saveExport makes the folder hf/step_<n> with what save writes to an empty one, and
// returns its path.
func (f *Folder) saveExport(step int, save func(dir string) error) (string, error) {
	name := filepath.Join(exportFolder, fmt.Sprint(stepPrefix, step))
	return filepath.Join(f.Path, name), f.put(name, save)
}

// put makes a folder of the run, or replaces it: never by half.
func (f *Folder) put(name string, write func(dir string) error) error {
	final := filepath.Join(f.Path, name)
	tmp := final + durable.Unfinished
	err := errors.Join(os.RemoveAll(tmp), os.MkdirAll(tmp, 0o755))
	if err == nil {
		err = write(tmp)
	}
	if err == nil {
		err = durable.SyncTree(tmp)
	}
	if err == nil {
		err = durable.Replace(tmp, final)
	}
	if err != nil {
		return fmt.Errorf("run: %s: %w", name, errors.Join(err, os.RemoveAll(tmp)))
	}
	return nil
}
