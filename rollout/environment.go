package rollout

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"vagen/env"
)

// begun is an environment at the start of an episode.
type begun struct {
	env        env.Env
	sys, first env.Observation
}

// open makes and resets an episode's environment.
func (p *Player) open(ctx context.Context, l *live) {
	e := l.Episode
	b, _, err := timed(ctx, p, l, "reset of "+e.Env,
		func(ctx context.Context) (begun, error) { return begin(ctx, p.Envs, e) },
		func(b begun, err error) {
			if err == nil {
				p.shut(e.Env, b.env)
			}
		})
	if err != nil {
		l.fail(endOf(err, EndSetup), err)
		return
	}
	l.env, l.sys, l.shown = b.env, b.sys, b.first
}

// timed is call with the time that is left to an episode's environment.
func timed[T any](ctx context.Context, p *Player, l *live, what string, f func(context.Context) (T, error), late func(T, error)) (value T, left bool, err error) {
	limit := p.timeout()
	if p.EpisodeTimeout > 0 {
		if limit = min(limit, p.EpisodeTimeout-l.busy); limit <= 0 {
			return value, false, fmt.Errorf("rollout: %s: %w (%v)", what, ErrEpisodeTimeout, p.EpisodeTimeout)
		}
	}
	begin := time.Now()
	value, left, err = call(ctx, limit, what, f, late)
	l.busy += time.Since(begin)
	if p.EpisodeTimeout > 0 && l.busy >= p.EpisodeTimeout && errors.Is(err, ErrTimeout) {
		err = fmt.Errorf("rollout: %s: %w (%v): %w", what, ErrEpisodeTimeout, p.EpisodeTimeout, err)
	}
	return value, left, err
}

// begin makes and resets the environment of an episode. When that fails it is
// closed, even by a panic.
func begin(ctx context.Context, envs *env.Registry, e Episode) (b begun, err error) {
	if b.env, err = envs.New(e.Env, e.Config); err != nil {
		return b, err
	}
	if b.env == nil {
		return b, fmt.Errorf("%w: its factory returned no environment", ErrContract)
	}
	ready := false
	defer func() {
		if !ready {
			err = errors.Join(err, b.env.Close())
		}
	}()
	if b.sys, err = b.env.System(ctx); err != nil {
		return b, err
	}
	if b.first, err = b.env.Reset(ctx, e.Seed); err != nil {
		return b, err
	}
	if err = errors.Join(checkObservation(b.sys), checkObservation(b.first)); err != nil {
		return b, err
	}
	ready = true
	return b, nil
}

func (p *Player) timeout() time.Duration {
	if p.EnvTimeout == 0 {
		return 10 * time.Minute
	}
	return p.EnvTimeout
}

// finish ends conversations and closes environments.
func (p *Player) finish(waves []*wave) {
	var open []*live
	for _, w := range waves {
		for _, l := range w.episodes {
			p.Policy.Forget(l.key)
			if l.env != nil {
				open = append(open, l)
			}
		}
	}
	p.each(open, func(l *live) { p.shut(l.Env, l.env) })
}

// closePatience is how long an environment may take to close.
const closePatience = time.Second

// shut closes an environment. One that hangs is left behind, one that fails is
// reported and changes nothing: the episode is over.
func (p *Player) shut(name string, c io.Closer) {
	_, _, err := call(context.Background(), closePatience, "close of "+name,
		func(context.Context) (struct{}, error) { return struct{}{}, c.Close() }, nil)
	if err != nil && p.Log != nil {
		p.Log.Warn("environment did not close", "env", name, "err", err)
	}
}

// step plays the last response in the environment.
func (p *Player) step(ctx context.Context, l *live) {
	turn := &l.Turns[len(l.Turns)-1]
	e, name, response := l.env, l.Env, turn.Response
	o, left, err := timed(ctx, p, l, "step of "+name,
		func(ctx context.Context) (env.Outcome, error) { return advance(ctx, e, response) },
		func(env.Outcome, error) { p.shut(name, e) })
	if left {
		l.env = nil // it is closed when it comes back
	}
	if err != nil {
		l.fail(endOf(err, EndEnv), err)
		return
	}
	turn.Parsed, turn.Reward, turn.Metrics = o.Response, o.Reward, o.Turn
	l.Metrics, l.Success = o.Trajectory, o.Success
	switch {
	case o.Done:
		l.End, l.over = EndDone, true
	case len(l.Turns) >= l.MaxTurns:
		l.End, l.over = EndMaxTurns, true
	default:
		l.shown, l.cut, l.fresh = o.Observation, false, true
	}
}

// advance plays a turn in an environment and checks its answer.
func advance(ctx context.Context, e env.Env, response string) (env.Outcome, error) {
	o, err := e.Step(ctx, response)
	if err == nil {
		err = checkOutcome(o)
	}
	return o, err
}
