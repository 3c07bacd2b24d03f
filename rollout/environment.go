package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"vagen/env"
)

// resetEnv is an environment at the start of an episode.
type resetEnv struct {
	env        env.Env
	sys, first env.Observation
}

// open creates an episode's environment and resets it, or sets it to the state of a
// branch point.
func (p *Player) open(ctx context.Context, l *live) {
	ctx = env.WithKey(ctx, l.seed) // a service is chosen by it, another one for each attempt
	e := l.Episode
	trial := l.trial
	var state []byte
	if l.from != nil {
		state = l.from.State
	}
	b, _, err := callTimed(ctx, p, l, "reset of "+e.Env,
		func(ctx context.Context) (resetEnv, error) { return startEnv(ctx, p.Envs, e, state, trial) },
		func(b resetEnv, err error) {
			if err == nil {
				p.closeEnv(e.Env, b.env)
			}
		})
	if err != nil {
		l.fail(endOf(err, EndSetup), err)
		return
	}
	l.env, l.sys, l.observation = b.env, b.sys, b.first
	switch c, calls := l.env.(Caller); {
	case calls && l.from != nil:
		l.fail(EndReplay, fmt.Errorf("rollout: %w: a program that asks for responses is not played from a turn on",
			ErrBranch))
	case calls:
		p.begin(ctx, l, c)
	case l.from != nil:
		p.branchOff(ctx, l)
	}
}

// callTimed is call, limited by the time that the episode's environment has left.
func callTimed[T any](
	ctx context.Context, p *Player, l *live, what string, f func(context.Context) (T, error), onLate func(T, error),
) (value T, abandoned bool, err error) {
	limit := cmp.Or(p.EnvTimeout, 10*time.Minute)
	if p.EpisodeTimeout > 0 {
		if limit = min(limit, p.EpisodeTimeout-l.busy); limit <= 0 {
			return value, false, fmt.Errorf("rollout: %s: %w (%v)", what, ErrEpisodeTimeout, p.EpisodeTimeout)
		}
	}
	begin := time.Now()
	value, abandoned, err = call(ctx, limit, what, f, onLate)
	l.busy += time.Since(begin)
	if p.EpisodeTimeout > 0 && l.busy >= p.EpisodeTimeout && errors.Is(err, ErrTimeout) {
		err = fmt.Errorf("rollout: %s: %w (%v): %w", what, ErrEpisodeTimeout, p.EpisodeTimeout, err)
	}
	return value, abandoned, err
}

// startEnv creates the environment of an episode and resets it, unless it is a Caller. If state is
// not nil it restores that instead, and returns no first observation. After an error or a panic the
// environment is closed.
func startEnv(
	ctx context.Context, envs *env.Registry, e Episode, state []byte, trial bool,
) (b resetEnv, err error) {
	if b.env, err = envs.New(e.Env, e.Config); errors.Is(err, env.ErrNone) {
		return b, fmt.Errorf("%w: %w", ErrContract, err)
	} else if err != nil {
		return b, err
	}
	ready := false
	defer func() {
		if !ready {
			err = errors.Join(err, b.env.Close())
		}
	}()
	c, err := CallerOf(b.env)
	switch {
	case err != nil:
		return b, err
	case c != nil && trial:
		return b, errTrial
	case c != nil && state != nil:
		return b, fmt.Errorf("%w: a program that asks for responses has no state", ErrBranch)
	case c != nil: // begin resets it
		ready = true
		return b, nil
	}
	if b.sys, err = b.env.System(ctx); err != nil {
		return b, err
	}
	if state != nil {
		err = restoreEnv(ctx, b.env, state)
	} else {
		b.first, err = b.env.Reset(ctx, e.Seed)
	}
	if err != nil {
		return b, err
	}
	if err = errors.Join(checkObservation(b.sys), checkObservation(b.first)); err != nil {
		return b, err
	}
	ready = true
	return b, nil
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
	p.each(open, func(l *live) { p.closeEnv(l.Env, l.env) })
}

// closeTimeout is the time limit for closing an environment.
const closeTimeout = time.Second

// closeEnv closes an environment. A close that hangs is abandoned; a failure is only
// logged, because the episode is over.
func (p *Player) closeEnv(name string, c io.Closer) {
	_, _, err := call(context.Background(), closeTimeout, "close of "+name,
		func(context.Context) (struct{}, error) { return struct{}{}, c.Close() }, nil)
	if err != nil && p.Log != nil {
		p.Log.Warn("environment did not close", "env", name, "err", err)
	}
}

// step calls the environment with the last response.
func (p *Player) step(ctx context.Context, l *live) {
	if c, ok := l.env.(Caller); ok {
		p.answer(ctx, l, c)
		return
	}
	last := len(l.Turns) - 1
	response := l.Turns[last].Response
	o, err := callEnv(ctx, p, l, "step", func(ctx context.Context, e env.Env) (env.Outcome, error) {
		return checked(e.Step(ctx, response))
	})
	if err != nil {
		l.fail(endOf(err, EndEnv), err)
		return
	}
	l.receive(last, o)
	l.scale(last)
	switch {
	case l.ended: // with an error
	case o.Done:
		l.End, l.ended = EndDone, true
	case len(l.Turns) >= l.MaxTurns:
		l.End, l.ended = EndMaxTurns, true
	default:
		l.observation, l.cut, l.unchecked = o.Observation, false, true
	}
}

// callEnv calls the episode's environment, limited by the time that it has left.
func callEnv[T any](
	ctx context.Context, p *Player, l *live, what string, f func(context.Context, env.Env) (T, error),
) (T, error) {
	e, name := l.env, l.Env
	value, abandoned, err := callTimed(ctx, p, l, what+" of "+name,
		func(ctx context.Context) (T, error) { return f(ctx, e) },
		func(T, error) { p.closeEnv(name, e) })
	if abandoned {
		l.env = nil // onLate closes it
	}
	return value, err
}

// receive records the outcome of a turn.
func (l *live) receive(turn int, o env.Outcome) {
	t := &l.Turns[turn]
	t.Parsed, t.Reward, t.Metrics = o.Response, o.Reward, o.Turn
	l.Metrics, l.Success = o.Trajectory, o.Success
}

// checked adds the error about an outcome that breaks the contract.
func checked(o env.Outcome, err error) (env.Outcome, error) {
	if err == nil {
		err = checkOutcome(o)
	}
	return o, err
}
