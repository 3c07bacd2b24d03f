package vagen

import (
	"context"
	"fmt"
	"time"

	"vagen/policy"
)

// Pending is a checkpoint that is being written. A nil Pending is written.
type Pending struct {
	done chan struct{}
	err  error
}

// Wait returns when the checkpoint is written, with what kept it from being.
func (p *Pending) Wait() error {
	if p == nil {
		return nil
	}
	<-p.done
	return p.err
}

// finished reports whether Wait returns at once.
func (p *Pending) finished() bool {
	if p == nil {
		return true
	}
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Begin is Save in the background: it returns when the learner may change again,
// and the rest goes on. A learner that is no policy.Snapshotter is saved before it
// returns. Of the context only the values count once it has returned: a
// checkpoint that was begun is worth ending. Wait for it before the next one.
func (c *Checkpoints) Begin(ctx context.Context, l policy.Learner, s State, config *Config) (*Pending, error) {
	shot, ok := l.(policy.Snapshotter)
	if !ok {
		return nil, c.Save(ctx, l, s, config)
	}
	settings, err := config.stored()
	if err != nil {
		return nil, fmt.Errorf("vagen: checkpoint: %w", err)
	}
	snapshot, err := shot.Snapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("vagen: checkpoint: %w", err)
	}
	p := &Pending{done: make(chan struct{})}
	begin := time.Now()
	go func() {
		defer close(p.done)
		p.err = c.put(context.WithoutCancel(ctx), snapshot.Save, s, settings)
		if p.err == nil && c.Log != nil {
			c.Log.Debug("checkpoint written", "step", s.Step, "seconds", time.Since(begin).Seconds())
		}
	}()
	return p, nil
}
