package rollout

import (
	"context"
	"errors"
)

// Try creates and resets the environment of an episode and gets the first response to it, as Play
// does, and returns the error with which the episode would have ended by then. The environment
// is closed without getting the response. The program of a Caller is not started.
func (p *Player) Try(ctx context.Context, e Episode, seed uint64) error {
	all, err := p.resolve([]Episode{e})
	if err := errors.Join(p.check(), err); err != nil {
		return err
	}
	l := &live{Trajectory: &Trajectory{Episode: all[0]}, batch: seed}
	p.prepare(l)
	l.trial = true
	if p.open(ctx, l); !l.ended {
		defer p.closeEnv(l.Env, l.env)
		defer p.Policy.Forget(l.key)
		if err := p.generate(ctx, []*live{l}); err != nil {
			return err
		}
	}
	if errors.Is(l.Err, errTrial) {
		return nil
	}
	return errors.Join(l.Err, ctx.Err())
}
