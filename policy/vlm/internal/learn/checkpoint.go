package learn

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// The folders of a checkpoint.
const (
	ActorFolder     = "actor"     // the policy, in the layout it was loaded from
	CriticFolder    = "critic"    // a separate critic, or a shared one's value head
	OptimizerFolder = "optimizer" // moments, and float32 masters where the weights are stored in a narrower type
)

// ErrCheckpoint is wrapped by errors about checkpoints that do not fit the model.
var ErrCheckpoint = errors.New("checkpoint does not fit the model")

// Copy copies what checkpoints contain to host memory.
func (s *Sets) Copy(ctx context.Context) (*Sets, error) {
	c := &Sets{Options: s.Options}
	var err error
	if c.Actor, err = s.Actor.Copy(ctx); err == nil && s.Critic != nil {
		c.Critic, err = s.Critic.Copy(ctx)
	}
	return c, err
}

// Save writes a checkpoint: see vlm.Model.Save.
func (s *Sets) Save(ctx context.Context, dir string) error {
	switch entries, err := os.ReadDir(filepath.Clean(dir)); { // "" is the working directory, as in what is written
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("vlm: save: %w", err)
	case len(entries) > 0:
		return fmt.Errorf("vlm: save: %s is not empty: %w", dir, fs.ErrExist)
	}
	save := func(l *Learner, dir string) error {
		if s.Adapter != nil {
			return l.SaveAdapter(ctx, *s.Adapter, s.Dir, dir)
		}
		return l.SaveModel(ctx, s.Dir, dir, false)
	}
	if err := save(s.Actor, filepath.Join(dir, ActorFolder)); err != nil {
		return err
	}
	switch {
	case s.Critic != nil:
		if err := save(s.Critic, filepath.Join(dir, CriticFolder)); err != nil {
			return err
		}
	case s.CriticOptions.Kind == SharedCritic:
		if err := s.Actor.SaveModel(ctx, s.Dir, filepath.Join(dir, CriticFolder), true); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, OptimizerFolder), 0o755); err != nil {
		return fmt.Errorf("vlm: save: %w", err)
	}
	if err := s.Actor.SaveOptimizer(ctx, filepath.Join(dir, OptimizerFolder, "actor.safetensors")); err != nil {
		return err
	}
	if s.Critic == nil {
		return nil
	}
	return s.Critic.SaveOptimizer(ctx, filepath.Join(dir, OptimizerFolder, "critic.safetensors"))
}
