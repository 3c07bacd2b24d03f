package learn

import "context"

// OnBase reports whether a learner shares the policy's base weights.
func (l *Learner) OnBase() bool { return l.Weights.Shares(0, 0) }

// Copy copies the state that checkpoints contain to host memory.
func (l *Learner) Copy(ctx context.Context) (*Learner, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := *l
	var err error
	if c.Weights, err = l.Weights.Copy(l.stored); err != nil || l.Adam == nil {
		return &c, err
	}
	a := *l.Adam
	if a.M, err = a.M.Copy(every); err == nil {
		a.V, err = a.V.Copy(every)
	}
	c.Adam = &a
	return &c, err
}
