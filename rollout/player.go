package rollout

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"vagen/env"
	"vagen/internal/rng"
	"vagen/policy"
)

// Player plays episodes with a policy, one batch at a time. Its fields are read
// only while it plays.
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
	if err := errors.Join(p.check(), checkEpisodes(episodes)); err != nil {
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

func checkEpisodes(episodes []Episode) error {
	for i, e := range episodes {
		if e.MaxTurns < 0 {
			return fmt.Errorf("rollout: episode %d: MaxTurns is %d, must not be negative", i, e.MaxTurns)
		}
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

// run advances the waves round by round until no episode is live.
func (p *Player) run(ctx context.Context, waves [][]*live, took *Timing) error {
	stepping := make([]sync.WaitGroup, len(waves))
	envs, cancel := context.WithCancel(ctx)
	defer func() {
		cancel() // nobody waits for the environments of a batch that has failed
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
			stepping[w].Go(func() { p.each(ready, func(l *live) { p.step(envs, l) }) })
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
