package train

import "context"

// Checkpointer saves a run. A Trainer without one saves nothing.
type Checkpointer interface {
	// Begin starts to save the learner and a state of the run. It returns as soon as the
	// learner may change, with the checkpoint that is still being written, or nil if it is
	// complete. A Trainer waits for a checkpoint before it starts the next one, and Run waits
	// for the last one before it returns.
	Begin(ctx context.Context, s State) (*Pending, error)
	// KeepBest saves the policy as the best one so far. It is called with
	// trainer.save_best_actor if a validation is better than all before.
	KeepBest(ctx context.Context, b Best) error
}

// Rollbacker is a Checkpointer that can restore its newest checkpoint, as required by
// stability.spike.action rollback.
type Rollbacker interface {
	Checkpointer
	// Rollback restores the learner from the newest checkpoint and returns its state.
	Rollback(ctx context.Context) (State, error)
}

// Pending is a checkpoint that is being written. Nil means a complete checkpoint.
type Pending struct {
	Done chan struct{} // closed when writing has succeeded or failed; nil means that it has
	Err  error         // valid once Done is closed
}

// Wait waits until the checkpoint is written and returns the error of writing it.
func (p *Pending) Wait() error {
	if p == nil {
		return nil
	}
	if p.Done != nil {
		<-p.Done
	}
	return p.Err
}

// finished reports whether Wait would return immediately.
func (p *Pending) finished() bool {
	if p == nil || p.Done == nil {
		return true
	}
	select {
	case <-p.Done:
		return true
	default:
		return false
	}
}
