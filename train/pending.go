package train

// Pending is a checkpoint that is being written. A nil Pending is written.
type Pending struct {
	Done chan struct{}
	Err  error
}

// Wait returns when the checkpoint is written, with what kept it from being.
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
