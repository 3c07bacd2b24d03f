package vlm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"vagen/policy/vlm/internal/learn"
)

// The folders of a checkpoint.
const (
	actorFolder     = "actor"     // the policy, in the layout it was loaded from
	criticFolder    = "critic"    // a separate critic, or a shared one's value head
	optimizerFolder = "optimizer" // moments, and float32 masters where the weights are stored in a narrower type
)

// ErrCheckpoint is wrapped by errors about checkpoints that do not fit the model.
var ErrCheckpoint = errors.New("checkpoint does not fit the model")

// Save implements policy.Learner. It writes the folders actor, critic and optimizer to
// dir. actor loads in transformers and vLLM; with adapters it is a PEFT folder with only
// the adapters (see Export for merged weights). Restore needs all of them. A folder that
// is not empty is an error that wraps fs.ErrExist, because files of an older checkpoint
// would be restored with this one. The folder is not synced as a whole: for an atomic
// checkpoint, write to a temporary folder and rename it.
func (m *Model) Save(ctx context.Context, dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	return m.write(ctx, dir, m.actor, m.critic)
}

// write saves the learners from the device, or copies of them. It does not read mutable
// state of the model. critic may be nil.
func (m *Model) write(ctx context.Context, dir string, actor, critic *learn.Learner) error {
	switch entries, err := os.ReadDir(dir); {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("vlm: save: %w", err)
	case len(entries) > 0:
		return fmt.Errorf("vlm: save: %s is not empty: %w", dir, fs.ErrExist)
	}
	save := func(l *learn.Learner, dir string) error {
		if m.adapter != nil {
			return l.SaveAdapter(ctx, *m.adapter, m.dir, dir)
		}
		return l.SaveModel(ctx, m.dir, dir, false)
	}
	if err := save(actor, filepath.Join(dir, actorFolder)); err != nil {
		return err
	}
	switch {
	case critic != nil:
		if err := save(critic, filepath.Join(dir, criticFolder)); err != nil {
			return err
		}
	case m.opts.Critic == SharedCritic:
		if err := actor.SaveModel(ctx, m.dir, filepath.Join(dir, criticFolder), true); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, optimizerFolder), 0o755); err != nil {
		return fmt.Errorf("vlm: save: %w", err)
	}
	if err := actor.SaveOptimizer(ctx, filepath.Join(dir, optimizerFolder, "actor.safetensors")); err != nil {
		return err
	}
	if critic == nil {
		return nil
	}
	return critic.SaveOptimizer(ctx, filepath.Join(dir, optimizerFolder, "critic.safetensors"))
}
