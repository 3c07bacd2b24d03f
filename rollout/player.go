package rollout

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"vagen/env"
	"vagen/internal/rng"
	"vagen/mask"
	"vagen/policy"
)

// Player plays episodes with a policy. Its fields are read only while it plays.
type Player struct {
	Policy   policy.Policy
	Envs     *env.Registry
	Sampling policy.Sampling
	MaxTurns int // limit on turns of an episode that sets none; must be positive

	// Workers is how many environments are worked on at once; 0 is 1. It changes
	// nothing in what is recorded.
	Workers int
	// Waves splits the episodes into so many batches; while the policy answers
	// one, the environments of the others step. 0 is 1, which is best when
	// environments are fast.
	Waves int
	// EnvTimeout limits each call of an environment; 0 is one minute.
	EnvTimeout time.Duration
	// Log receives each failed episode at debug level, and a summary of them as a
	// warning; nil discards them.
	Log *slog.Logger

	keys uint64 // last conversation key handed out
}

// Timing splits the time that Play took. With several waves the parts overlap.
type Timing struct {
	Generate time.Duration // waiting for the policy
	Env      time.Duration // waiting for environments
}

// live is an episode in play.
type live struct {
	*Trajectory
	env     env.Env
	key     uint64
	seed    uint64 // of the episode's sampling
	pending []policy.Message
	shown   env.Observation
	over    bool
}

// Play plays the episodes and returns one trajectory for each, in order. Seed
// decides all sampling, together with each episode's Group and Index. An error
// means that the batch as a whole could not be played: the context ended, the
// policy failed, or the settings are wrong; single episodes report their
// failures in their trajectories.
func (p *Player) Play(ctx context.Context, episodes []Episode, seed uint64) ([]*Trajectory, Timing, error) {
	var took Timing
	if err := p.check(); err != nil {
		return nil, took, err
	}
	waves := p.start(ctx, episodes, seed, &took)
	defer p.finish(waves)
	if err := ctx.Err(); err != nil {
		return nil, took, err
	}
	if err := p.run(ctx, waves, &took); err != nil {
		return nil, took, err
	}
	out := make([]*Trajectory, len(episodes))
	for w, wave := range waves {
		for k, l := range wave {
			out[w+k*len(waves)] = l.Trajectory
			if l.Err != nil && p.Log != nil {
				p.Log.Debug("episode cannot be used", "env", l.Env, "seed", l.Seed, "group", l.Group, "index", l.Index, "end", l.End, "err", l.Err)
			}
		}
	}
	p.warn(out)
	return out, took, nil
}

// warn tells how many episodes cannot be used, and why, in one line.
func (p *Player) warn(ts []*Trajectory) {
	c := Count(ts)
	if p.Log == nil || c.Usable == c.Episodes {
		return
	}
	args := []any{"unusable", c.Episodes - c.Usable, "of", c.Episodes}
	var first error
	for _, end := range slices.Sorted(maps.Keys(c.ByEnd)) {
		if !end.Usable() {
			args = append(args, string(end), c.ByEnd[end])
		}
	}
	for _, t := range ts {
		if t.Err != nil {
			first = t.Err
			break
		}
	}
	p.Log.Warn("some episodes cannot be used", append(args, "first", first)...)
}

func (p *Player) check() error {
	switch {
	case p.Policy == nil:
		return errors.New("rollout: Policy is not set")
	case p.Envs == nil:
		return errors.New("rollout: Envs is not set")
	case p.MaxTurns < 1:
		return fmt.Errorf("rollout: MaxTurns is %d, must be positive", p.MaxTurns)
	case p.Workers < 0 || p.Waves < 0 || p.EnvTimeout < 0:
		return fmt.Errorf("rollout: Workers %d, Waves %d and EnvTimeout %v must not be negative", p.Workers, p.Waves, p.EnvTimeout)
	}
	return nil
}

// start makes and resets all environments and deals the episodes to waves, one
// to each in turn.
func (p *Player) start(ctx context.Context, episodes []Episode, seed uint64, took *Timing) [][]*live {
	waves := make([][]*live, min(max(1, p.Waves), max(1, len(episodes))))
	var all []*live
	for i, e := range episodes {
		if e.MaxTurns == 0 {
			e.MaxTurns = p.MaxTurns
		}
		p.keys++
		l := &live{Trajectory: &Trajectory{Episode: e}, key: p.keys, seed: rng.Derive(seed, rng.Sample, uint64(e.Group), uint64(e.Index))}
		all = append(all, l)
		waves[i%len(waves)] = append(waves[i%len(waves)], l)
	}
	begin := time.Now()
	p.each(all, func(l *live) { p.open(ctx, l) })
	took.Env += time.Since(begin)
	return waves
}

// each runs f for every episode on the workers and waits for all of them.
func (p *Player) each(ls []*live, f func(*live)) {
	work := make(chan *live)
	var wg sync.WaitGroup
	for range min(max(1, p.Workers), len(ls)) {
		wg.Go(func() {
			for l := range work {
				f(l)
			}
		})
	}
	for _, l := range ls {
		work <- l
	}
	close(work)
	wg.Wait()
}

func (l *live) fail(end End, err error) {
	l.End, l.Err, l.over = end, err, true
}

// open makes and resets an episode's environment.
func (p *Player) open(ctx context.Context, l *live) {
	type begun struct {
		env        env.Env
		sys, first env.Observation
	}
	b, err := call(ctx, p.timeout(), "reset of "+l.Env, func(ctx context.Context) (b begun, err error) {
		if b.env, err = p.Envs.New(l.Env, l.Config); err != nil {
			return b, err
		}
		if b.sys, err = b.env.System(ctx); err != nil {
			return b, errors.Join(err, b.env.Close())
		}
		if b.first, err = b.env.Reset(ctx, l.Seed); err != nil {
			return b, errors.Join(err, b.env.Close())
		}
		return b, nil
	})
	if err != nil {
		l.fail(endOf(err, EndSetup), err)
		return
	}
	l.env = b.env
	if err := errors.Join(checkObservation(b.sys), checkObservation(b.first)); err != nil {
		l.fail(EndContract, err)
		return
	}
	l.Rows = []Row{{}}
	if b.sys.Text != "" {
		l.pending = append(l.pending, message(policy.System, b.sys))
	}
	l.shown = b.first
	l.pending = append(l.pending, message(policy.User, b.first))
}

func message(role policy.Role, o env.Observation) policy.Message {
	return policy.Message{Role: role, Text: o.Text, Images: o.Images}
}

func (p *Player) timeout() time.Duration {
	if p.EnvTimeout == 0 {
		return time.Minute
	}
	return p.EnvTimeout
}

// finish ends conversations and closes environments.
func (p *Player) finish(waves [][]*live) {
	for _, wave := range waves {
		for _, l := range wave {
			p.Policy.Forget(l.key)
			closeEnv(l.env)
		}
	}
}

// closeEnv closes without waiting for an environment that hangs.
func closeEnv(c io.Closer) {
	if c == nil {
		return
	}
	_, _ = call(context.Background(), time.Second, "close", func(context.Context) (struct{}, error) { return struct{}{}, c.Close() })
}

// run advances the waves round by round until no episode is live.
func (p *Player) run(ctx context.Context, waves [][]*live, took *Timing) error {
	stepping := make([]sync.WaitGroup, len(waves))
	defer func() {
		for w := range stepping {
			stepping[w].Wait()
		}
	}()
	for {
		busy := false
		for w, wave := range waves {
			begin := time.Now()
			stepping[w].Wait()
			took.Env += time.Since(begin)
			ready := p.ready(wave)
			if len(ready) == 0 {
				continue
			}
			busy = true
			begin = time.Now()
			err := p.answer(ctx, ready)
			took.Generate += time.Since(begin)
			if err != nil {
				return err
			}
			stepping[w].Go(func() { p.each(ready, func(l *live) { p.step(ctx, l) }) })
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if !busy {
			return nil
		}
	}
}

// ready lists the episodes of a wave that go on, and lets the policy forget those
// that have ended.
func (p *Player) ready(wave []*live) []*live {
	var out []*live
	var ended []uint64
	for _, l := range wave {
		if l.over {
			ended = append(ended, l.key)
		} else {
			out = append(out, l)
		}
	}
	p.Policy.Forget(ended...)
	return out
}

// answer asks the policy for the responses of one wave.
func (p *Player) answer(ctx context.Context, ls []*live) error {
	prompts := make([]policy.Prompt, len(ls))
	for i, l := range ls {
		prompts[i] = policy.Prompt{
			Conversation: l.key, Messages: l.pending,
			Seed: rng.Derive(l.seed, rng.Sample, uint64(len(l.Turns))),
		}
	}
	out, err := p.Policy.Generate(ctx, prompts, p.Sampling)
	if err != nil {
		return fmt.Errorf("rollout: generate: %w", err)
	}
	if len(out) != len(ls) {
		return fmt.Errorf("rollout: the policy gave %d completions for %d prompts", len(out), len(ls))
	}
	for i, l := range ls {
		l.record(out[i])
	}
	return nil
}

// record appends a completion to the episode's row.
func (l *live) record(c policy.Completion) {
	if c.Err != nil {
		l.fail(EndPolicy, c.Err)
		if errors.Is(c.Err, policy.ErrNoRoom) && len(l.Turns) > 0 {
			l.End, l.Err = EndNoRoom, nil
		}
		return
	}
	row := &l.Rows[len(l.Rows)-1]
	kind := mask.Observation
	if row.Turns() == 0 {
		kind = mask.Prompt
	}
	if len(c.Tokens) == 0 && c.Text == "" {
		l.fail(EndEmpty, errors.New("rollout: the policy wrote an empty response"))
		return
	}
	if len(c.Tokens) > 0 {
		if len(c.LogProbs) != len(c.Tokens) {
			l.fail(EndPolicy, fmt.Errorf("rollout: %d log-probs for %d tokens", len(c.LogProbs), len(c.Tokens)))
			return
		}
		if err := errors.Join(row.AppendContext(kind, c.Context...), row.AppendResponse(c.Tokens...)); err != nil {
			l.fail(EndPolicy, err)
			return
		}
		row.LogProbs = append(append(row.LogProbs, make([]float32, len(c.Context))...), c.LogProbs...)
	}
	row.Images = append(row.Images, c.Images...)
	l.Turns = append(l.Turns, Turn{Row: len(l.Rows) - 1, Observation: l.shown, Response: c.Text, Stop: c.Stop})
	l.pending = nil
	if c.Stop == policy.StopVision {
		l.fail(EndVision, errors.New("rollout: the policy wrote an image placeholder"))
	}
}

// step plays the last response in the environment.
func (p *Player) step(ctx context.Context, l *live) {
	if l.over {
		return
	}
	turn := &l.Turns[len(l.Turns)-1]
	o, err := call(ctx, p.timeout(), "step of "+l.Env, func(ctx context.Context) (env.Outcome, error) {
		return l.env.Step(ctx, turn.Response)
	})
	if err == nil {
		err = checkOutcome(o)
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
		l.shown = o.Observation
		l.pending = []policy.Message{message(policy.User, o.Observation)}
	}
}
