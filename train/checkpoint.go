package train

import "context"

// Checkpointer saves a run. A Trainer without one saves nothing.
type Checkpointer interface {
	// Begin starts to save the learner with a state of the run. It returns as soon as
	// the learner may change, with the checkpoint that is still being written; nil if
	// it is written. A Trainer waits for one checkpoint before it begins the next, and
	// Run waits for the last one before it returns.
	Begin(ctx context.Context, s State) (*Pending, error)
	// KeepBest saves the policy as the best one so far. It is called with
	// trainer.save_best_actor when a validation was better than all before it.
	KeepBest(ctx context.Context, b Best) error
}

// Rollbacker is a Checkpointer that can go back. stability.spike.action rollback
// needs one.
type Rollbacker interface {
	Checkpointer
	// Rollback restores the learner from the newest checkpoint and returns its state.
	Rollback(ctx context.Context) (State, error)
}

// Pending is a checkpoint that is being written. A nil Pending is written.
type Pending struct {
	Done chan struct{} // closed when it is written or has failed
	Err  error         // valid once Done is closed
}

// Wait returns when the checkpoint is written, with the error of writing it.
func (p *Pending) Wait() error {
	if p == nil {
		return nil
	}
	<-p.Done
	return p.Err
}

// finished reports whether Wait returns at once.
func (p *Pending) finished() bool {
	if p == nil {
		return true
	}
	select {
	case <-p.Done:
		return true
	default:
		return false
	}
}
