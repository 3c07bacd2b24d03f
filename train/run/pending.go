package run

import (
	"context"
	"fmt"
	"time"

	"vagen/policy"
	"vagen/train"
	"vagen/train/config"
)

// Begin is Save in the background: it returns when the learner may change again,
// and the rest goes on. A learner that is no policy.Snapshotter is saved before it
// returns. Of the context only the values count once it has returned: a
// checkpoint that was begun is worth ending. Wait for it before the next one.
func (c *Checkpoints) Begin(ctx context.Context, l policy.Learner, s train.State, cfg *config.Config) (*train.Pending, error) {
	shot, ok := l.(policy.Snapshotter)
	if !ok {
		return nil, c.Save(ctx, l, s, cfg)
	}
	settings, err := cfg.Stored()
	if err != nil {
		return nil, fmt.Errorf("run: checkpoint: %w", err)
	}
	snapshot, err := shot.Snapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("run: checkpoint: %w", err)
	}
	p := &train.Pending{Done: make(chan struct{})}
	begin := time.Now()
	go func() {
		defer close(p.Done)
		p.Err = c.put(context.WithoutCancel(ctx), snapshot.Save, s, settings)
		if p.Err == nil && c.Log != nil {
			c.Log.Debug("checkpoint written", "step", s.Step, "seconds", time.Since(begin).Seconds())
		}
	}()
	return p, nil
}
