package learn

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
)

// Restore replaces weights and optimiser state by those of a checkpoint, on all ranks: see vlm.Model.Restore. It
// calls begin before it changes anything. Accumulated gradients belong to the weights before and are dropped.
func (s *Sets) Restore(ctx context.Context, dir string, begin func()) error {
	folders := []string{filepath.Join(dir, ActorFolder)}
	if s.CriticOptions.Kind == SharedCritic {
		folders = append(folders, filepath.Join(dir, CriticFolder))
	}
	plans := []*Restoration{{Learner: s.Actor, Folders: folders,
		Optimizer: filepath.Join(dir, OptimizerFolder, "actor.safetensors")}}
	if s.Critic != nil {
		plans = append(plans, &Restoration{Learner: s.Critic, Folders: []string{filepath.Join(dir, CriticFolder)},
			Optimizer: filepath.Join(dir, OptimizerFolder, "critic.safetensors")})
	}
	var problems []error
	for _, r := range plans {
		defer r.Close()
		if err := r.Open(); err != nil {
			return fmt.Errorf("vlm: restore: %w", err)
		}
		problems = append(problems, r.Check()...)
		if s.Adapter != nil {
			problems = append(problems, r.CheckAdapter(s.Adapter)...)
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("vlm: restore: %s: %w: %w", dir, ErrCheckpoint, errors.Join(problems...))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	begin()
	s.dropGradients()
	for _, r := range plans {
		if err := r.Learner.OnDevices(true, r.Load); err != nil {
			return fmt.Errorf("vlm: restore: %w", err)
		}
	}
	if err := s.Peers.Failed(s.send(ctx, &command{Restore: true}, nil)); err != nil {
		return fmt.Errorf("vlm: restore: %w", err)
	}
	if err := s.Peers.Failed(s.shareState(s.Peers.Whole(ctx))); err != nil {
		return fmt.Errorf("vlm: restore: %w", err)
	}
	return nil
}

func (s *Sets) dropGradients() {
	s.Actor.DropGradients()
	s.Critic.DropGradients()
}
