package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"vagen/internal/silent"
	"vagen/policy"
	"vagen/train"
	"vagen/train/config"
)

// Begin is Save in the background: it returns when the learner may change again, while the
// files are being written. A learner that is not a policy.Snapshotter is saved before Begin
// returns. After Begin has returned, the end of ctx does not stop the writing. Callers must
// wait for a checkpoint before they begin the next one.
func (c *Checkpoints) Begin(
	ctx context.Context, l policy.Learner, s train.State, cfg *config.Config,
) (*train.Pending, error) {
	shot, ok := policy.As[policy.Snapshotter](l)
	if !ok {
		return nil, c.Save(ctx, l, s, cfg)
	}
	settings, err := cfg.Stored()
	if err != nil {
		return nil, fmt.Errorf("run: checkpoint: %w", err)
	}
	snapshot, err := shot.Snapshot(ctx)
	if err == nil && snapshot == nil {
		err = errors.New("the learner returned a nil snapshot")
	}
	if err != nil {
		return nil, fmt.Errorf("run: checkpoint: %w", err)
	}
	p := &train.Pending{Done: make(chan struct{})}
	begin := time.Now()
	go func() {
		defer close(p.Done)
		p.Err = c.put(context.WithoutCancel(ctx), snapshot.Save, s, settings)
		if p.Err == nil {
			silent.Log(c.Log).Debug("checkpoint written", "step", s.Step, "seconds", time.Since(begin).Seconds())
		}
	}()
	return p, nil
}
