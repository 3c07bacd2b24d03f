package vlm

import (
	"context"

	"vagen/policy"
	"vagen/policy/vlm/internal/learn"
)

// snapshot is a copy of a model's state in host memory.
type snapshot struct {
	model         *Model
	actor, critic *learn.Learner // copies
}

// Snapshot implements policy.Snapshotter. It uses four bytes of host memory for each weight
// and eight more for each trained one, until the snapshot is saved and garbage collected;
// with adapters the base weights are not copied.
func (m *Model) Snapshot(ctx context.Context) (policy.Snapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	s := &snapshot{model: m}
	var err error
	if s.actor, err = m.actor.Copy(ctx); err != nil {
		return nil, err
	}
	if m.critic != nil {
		s.critic, err = m.critic.Copy(ctx)
	}
	return s, err
}

// Save implements policy.Snapshot.
func (s *snapshot) Save(ctx context.Context, dir string) error {
	return s.model.write(ctx, dir, s.actor, s.critic)
}
