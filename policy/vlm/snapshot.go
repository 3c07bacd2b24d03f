package vlm

import (
	"context"

	"vagen/policy"
	"vagen/policy/vlm/internal/model"
)

// snapshot is a copy of a model's state in host memory.
type snapshot struct {
	model         *Model
	actor, critic *learner // copies
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
	if s.actor, err = m.copy(ctx, m.actor); err != nil {
		return nil, err
	}
	if m.critic != nil {
		s.critic, err = m.copy(ctx, m.critic)
	}
	return s, err
}

// copy copies the state of a learner that write needs.
func (m *Model) copy(ctx context.Context, l *learner) (*learner, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	all := func(int, model.Param) bool { return true }
	want := all
	if m.adapter != nil {
		want = func(group int, p model.Param) bool { return l.besideAdapter(group, p) || l.isScore(group) }
	}
	c := *l
	var err error
	if c.weights, err = l.weights.Copy(want); err != nil || l.adam == nil {
		return &c, err
	}
	a := *l.adam
	if a.m, err = a.m.Copy(all); err == nil {
		a.v, err = a.v.Copy(all)
	}
	c.adam = &a
	return &c, err
}

// Save implements policy.Snapshot.
func (s *snapshot) Save(ctx context.Context, dir string) error {
	return s.model.write(ctx, dir, s.actor, s.critic)
}
