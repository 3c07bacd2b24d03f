package vlm

import (
	"context"

	"vagen/policy"
	"vagen/policy/vlm/internal/learn"
)

// ErrCheckpoint is wrapped by errors about checkpoints that do not fit the model.
var ErrCheckpoint = learn.ErrCheckpoint

// Save implements policy.Learner. It writes the folders actor, critic and optimizer to
// dir. actor loads in transformers and vLLM; with adapters it is a PEFT folder with only
// the adapters (see Export for merged weights). Restore needs all of them. A folder that
// is not empty is an error that wraps fs.ErrExist, because files of an older checkpoint
// would be restored with this one. The folder is not synced as a whole: for an atomic
// checkpoint, write to a temporary folder and rename it.
func (m *Model) Save(ctx context.Context, dir string) error {
	unlock, err := m.lock()
	if err != nil {
		return err
	}
	defer unlock()
	return m.sets.Save(ctx, dir)
}

// Restore replaces weights and optimiser state by those of a checkpoint that Save wrote.
// The reference policy is unchanged. All conversations end.
//
// All files are checked first. Tensors that are missing, misshapen or not finite are listed
// together in an error that wraps ErrCheckpoint, and the model is unchanged.
func (m *Model) Restore(ctx context.Context, dir string) error {
	unlock, err := m.lock()
	if err != nil {
		return err
	}
	defer unlock()
	return m.sets.Restore(ctx, dir, m.gen.DropSessions)
}

// snapshot is a copy of a model's state in host memory.
type snapshot struct{ sets *learn.Sets }

// Snapshot implements policy.Snapshotter. It uses four bytes of host memory for each weight
// and eight more for each trained one, until the snapshot is saved and garbage collected;
// with adapters the base weights are not copied.
func (m *Model) Snapshot(ctx context.Context) (policy.Snapshot, error) {
	unlock, err := m.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	c, err := m.sets.Copy(ctx)
	if err != nil {
		return nil, err
	}
	return &snapshot{c}, nil
}

// Save implements policy.Snapshot.
func (s *snapshot) Save(ctx context.Context, dir string) error { return s.sets.Save(ctx, dir) }
