package vlm

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"vagen/policy/vlm/internal/learn"
)

// Restore replaces weights and optimiser state by those of a checkpoint that Save wrote.
// The reference policy is unchanged. All conversations end.
//
// All files are checked first. Tensors that are missing, misshapen or not finite are listed
// together in an error that wraps ErrCheckpoint, and the model is unchanged.
func (m *Model) Restore(ctx context.Context, dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	folders := []string{filepath.Join(dir, actorFolder)}
	if m.opts.Critic == SharedCritic {
		folders = append(folders, filepath.Join(dir, criticFolder))
	}
	plans := []*learn.Restoration{{Learner: m.actor, Folders: folders, Optimizer: filepath.Join(dir, optimizerFolder, "actor.safetensors")}}
	if m.critic != nil {
		plans = append(plans, &learn.Restoration{Learner: m.critic, Folders: []string{filepath.Join(dir, criticFolder)},
			Optimizer: filepath.Join(dir, optimizerFolder, "critic.safetensors")})
	}
	var problems []error
	for _, r := range plans {
		defer r.Close()
		if err := r.Open(); err != nil {
			return fmt.Errorf("vlm: restore: %w", err)
		}
		problems = append(problems, r.Check()...)
		if m.adapter != nil {
			problems = append(problems, r.CheckAdapter(m.adapter)...)
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("vlm: restore: %s: %w: %w", dir, ErrCheckpoint, errors.Join(problems...))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	m.gen.DropSessions()
	for _, r := range plans {
		if err := r.Learner.OnDevices(true, r.Load); err != nil {
			return fmt.Errorf("vlm: restore: %w", err)
		}
	}
	if err := m.group.Failed(m.order(ctx, &order{Restore: true}, nil)); err != nil {
		return fmt.Errorf("vlm: restore: %w", err)
	}
	if err := m.group.Failed(m.shareState(m.group.Whole(ctx))); err != nil {
		return fmt.Errorf("vlm: restore: %w", err)
	}
	return nil
}
