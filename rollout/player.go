package rollout

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"vagen/env"
	"vagen/internal/field"
	"vagen/internal/rng"
	"vagen/policy"
)

// Player plays episodes with a policy, one batch at a time. Its fields must not
// change while it plays.
type Player struct {
	Policy   policy.Policy
	Envs     *env.Registry
	Sampling policy.Sampling
	MaxTurns int `count:"positive"` // turn limit of episodes that do not set one

	Harness Harness // splits episodes into conversations; nil is Concat
	Budget  Budget  // token limits of conversations

	// Workers is how many environments run at once; 0 is 1. It does not change what
	// is recorded.
	Workers int `least:"0"`
	// UncountedRemote does not count environments that other processes run, see
	// env.Registry.SetRemote, among Workers: the calls of all of them run at once, as many as
	// there are live episodes.
	UncountedRemote bool
	// Waves is the number of batches that the episodes are split into. While the
	// policy answers one batch, the environments of the others step. 0 is 1, which
	// is best when environments are fast.
	Waves int `least:"0"`
	// Patience is how long the policy waits for a wave's environments. After that it
	// continues without those that are still running; they join a later round. 0
	// waits for all. The random draws do not depend on which episodes share a batch,
	// but the rounding of matrix products may, so only 0 reproduces a run bit by bit.
	Patience time.Duration `least:"0"`
	// Continuous plays every episode by itself: it continues as soon as its environment has answered, with a call of the
	// policy of its own, which must allow calls at the same time. Policies behind servers take such calls as they come;
	// that of package vlm needs its Options.Continuous, or it answers them one after the other. Results repeat up to the
	// policy's rounding. Waves must be 0 or 1, and Patience 0.
	Continuous bool
	// EnvTimeout limits each call of an environment; 0 is ten minutes, long enough
	// for a remote environment to repeat several lost requests. If all environments
	// run in this process, one minute detects those that hang sooner.
	EnvTimeout time.Duration `least:"0"`
	// EpisodeTimeout limits the total time of all calls of an episode's environment;
	// 0 is no limit.
	EpisodeTimeout time.Duration `least:"0"`
	// EpisodeMean names reward parts that are averaged over the turns played and
	// multiplied by the turn limit: see reward.EpisodeMean.
	EpisodeMean []string
	// Retry defines which failed episodes are played again; the zero value retries none.
	Retry Retry
	// Dealer plays the episodes of Play and Fill in other processes; nil plays them here. Then
	// Policy is only asked for the checks before, and Workers, Waves and Patience have no
	// effect, because every episode is played by itself.
	Dealer Dealer
	// Tag tells batches with equal episodes and seeds apart for a Dealer, such as the
	// validations after two steps.
	Tag string
	// Next, if not nil, gets each trajectory as soon as its episode has ended, and may return an episode to
	// play in its place: Play ends when there are none left, with the last trajectory of each place. Each
	// episode needs its own Group and Index. A Dealer plays only the episodes that Play gets.
	Next func(*Trajectory) (Episode, bool)
	// FirstKey is where the keys of conversations start. Players that use a policy at the same
	// time need numbers that are far apart.
	FirstKey uint64
	// Log receives each failed episode at debug level, and a summary of them as a
	// warning; nil discards them.
	Log *slog.Logger

	keys   uint64      // number of conversation keys assigned
	shared *sync.Mutex // of keys and Next, when episodes are played by themselves; else nil
}

// SetWorkers sets Workers and UncountedRemote from one number, as the key run.workers has it:
// 0 is two environments of this process and all of those that other processes run; another
// number is the limit for all together.
func (p *Player) SetWorkers(n int) {
	p.Workers, p.UncountedRemote = n, false
	if n == 0 {
		p.Workers, p.UncountedRemote = 2, true
	}
}

// Timing is the time that Play spent, by part. With several waves the parts overlap.
type Timing struct {
	Generate time.Duration // waiting for the policy
	Env      time.Duration // waiting for environments
}

// ErrNotStarted means that no episode of a batch could be started.
var ErrNotStarted = errors.New("no episode could be started")

// Play plays the episodes and returns one trajectory for each, in order. All
// sampling depends on seed and on each episode's Group and Index only, so it is an error
// if two episodes have the same. An error means that the whole batch failed: the context
// ended, the policy failed, or the settings are wrong. The failure of a single episode is in
// its trajectory. If no environment could be created and reset, the error wraps
// ErrNotStarted, and the trajectories come with it.
func (p *Player) Play(ctx context.Context, episodes []Episode, seed uint64) ([]*Trajectory, Timing, error) {
	resolved, err := p.resolve(episodes)
	if err := errors.Join(p.check(), err); err != nil {
		return nil, Timing{}, err
	}
	var ts []*Trajectory
	var took Timing
	if p.Dealer != nil {
		ts, took, err = p.deal(ctx, resolved, seed)
	} else {
		lives := make([]*live, len(resolved))
		for i, e := range resolved {
			lives[i] = &live{Trajectory: &Trajectory{Episode: e}, batch: seed}
		}
		ts, took, err = p.play(ctx, lives)
	}
	if err == nil && len(ts) > 0 && Count(ts).ByEnd[EndSetup] == len(ts) {
		err = fmt.Errorf("rollout: %w: %w", ErrNotStarted, Failures(ts))
	}
	return ts, took, err
}

// resolve checks episodes and returns them with their turn limits, and with their positions as
// indices if none has a Group or an Index.
func (p *Player) resolve(episodes []Episode) ([]Episode, error) {
	if err := checkEpisodes(episodes); err != nil {
		return nil, err
	}
	out := slices.Clone(episodes)
	named := slices.ContainsFunc(episodes, func(e Episode) bool { return e.Group != 0 || e.Index != 0 })
	seen := make(map[[2]int]int, len(out))
	for i := range out {
		e := &out[i]
		if e.MaxTurns == 0 {
			e.MaxTurns = p.MaxTurns
		}
		if !named {
			e.Index = i
		}
		id := [2]int{e.Group, e.Index}
		if first, repeated := seen[id]; repeated {
			return nil, fmt.Errorf(
				"rollout: episodes %d and %d have the same Group %d and Index %d, with which they would get "+
					"the same random numbers: every episode of a batch needs its own",
				first,
				i,
				e.Group,
				e.Index,
			)
		}
		seen[id] = i
	}
	return out, nil
}

// play plays episodes from their start, or from their branch point.
func (p *Player) play(ctx context.Context, lives []*live) ([]*Trajectory, Timing, error) {
	var took Timing
	waves := p.start(ctx, lives, &took)
	defer p.finish(waves)
	if err := ctx.Err(); err != nil {
		return nil, took, err
	}
	slots := make(chan struct{}, max(1, p.Workers))
	run := p.run
	if p.Continuous {
		run, p.shared = p.runEach, new(sync.Mutex)
	}
	if err := run(ctx, waves, &took, slots); err != nil {
		return nil, took, err
	}
	out := make([]*Trajectory, len(lives))
	for w, wave := range waves {
		for k, l := range wave.episodes {
			out[w+k*len(waves)] = l.Trajectory
			if p.Next == nil {
				l.average(p.EpisodeMean)
			}
			if l.Err != nil && p.Log != nil {
				p.Log.Debug("episode cannot be used", "env", l.Env, "seed", l.Seed, "group", l.Group, "index", l.Index, "end",
					l.End, "err", l.Err)
			}
		}
	}
	p.warn(out)
	return out, took, nil
}

// succeed puts the next episode in the place of one that has ended, if there is one.
func (p *Player) succeed(l *live) bool {
	if !l.followed {
		return false
	}
	l.average(p.EpisodeMean)
	unlock := p.lock()
	e, more := p.Next(l.Trajectory)
	unlock()
	if l.followed = false; !more {
		return false
	}
	if e.MaxTurns == 0 {
		e.MaxTurns = p.MaxTurns
	}
	l.Trajectory = &Trajectory{Episode: e}
	p.prepare(l)
	l.restart = true
	return true
}

// warn logs in one line how many episodes cannot be used, and why.
func (p *Player) warn(ts []*Trajectory) {
	c := Count(ts)
	if p.Log == nil || c.Usable == c.Episodes {
		return
	}
	args := []any{"unusable", c.Episodes - c.Usable, "of", c.Episodes}
	for _, end := range c.failures() {
		args = append(args, string(end), c.ByEnd[end])
	}
	p.Log.Warn("some episodes cannot be used", append(args, "first", firstError(ts))...)
}

func (p *Player) check() error {
	switch {
	case p.Policy == nil:
		return errors.New("rollout: Policy is not set")
	case p.Envs == nil:
		return errors.New("rollout: Envs is not set")
	}
	var c field.Checks
	c.Struct(p, "")
	if err := c.Err(); err != nil {
		return fmt.Errorf("rollout: %w", err)
	}
	if p.Continuous && (p.Waves > 1 || p.Patience > 0) {
		return fmt.Errorf("rollout: Continuous: Waves is %d and Patience %v, must be at most 1 and 0: no episode waits for "+
			"others", p.Waves, p.Patience)
	}
	if c, compact := p.Harness.(Compact); compact && c.Summary < 1 {
		return fmt.Errorf("rollout: Compact: %w: Summary is %d, must be positive", ErrNoSummary, c.Summary)
	}
	if _, counts := policy.As[policy.Counter](p.Policy); p.Budget.on() && !counts {
		return fmt.Errorf("rollout: Budget: %w", ErrNoCounter)
	}
	if err := p.Sampling.Check(); err != nil {
		return fmt.Errorf("rollout: Sampling: %w", err)
	}
	return errors.Join(p.Budget.check(), p.Retry.check())
}

// budget is the Budget with the limit of an episode.
func (p *Player) budget(l *live) Budget {
	b := p.Budget
	if n := l.MaxRegion; n > 0 && (b.Response == 0 || n < b.Response) {
		b.Response = n
	}
	return b
}

func checkEpisodes(episodes []Episode) error {
	for i, e := range episodes {
		var c field.Checks
		c.Struct(&e, "")
		if err := c.Err(); err != nil {
			return fmt.Errorf("rollout: episode %d: %w", i, err)
		}
	}
	return nil
}

// start creates and resets all environments and assigns the episodes to waves
// round robin.
func (p *Player) start(ctx context.Context, lives []*live, took *Timing) []*wave {
	n := max(1, p.Waves)
	if p.Continuous {
		n = len(lives)
	}
	waves := make([]*wave, min(n, max(1, len(lives))))
	for w := range waves {
		waves[w] = &wave{arrived: make(chan *live, len(lives)/len(waves)+1), single: len(lives) == 1 || p.Continuous}
	}
	for i, l := range lives {
		p.prepare(l)
		w := waves[i%len(waves)]
		w.episodes = append(w.episodes, l)
	}
	begin := time.Now()
	p.each(lives, func(l *live) {
		if l.restart = p.Continuous || p.Patience > 0 && p.Envs.Remote(l.Env); l.restart {
			return // opened by its first round, for which no other episode waits
		}
		p.open(ctx, l)
		p.decideRetry(l)
	})
	took.Env += time.Since(begin)
	return waves
}

// prepare sets the state of an episode to its start, for the first attempt or a
// retry.
func (p *Player) prepare(l *live) {
	ids := []uint64{uint64(l.Group), uint64(l.Index)}
	if l.Attempt > 0 {
		ids = append(ids, uint64(l.Attempt))
	}
	*l = live{
		Trajectory: &Trajectory{Episode: l.Episode, Attempt: l.Attempt},
		batch:      l.batch, env: l.env, key: p.newKey(), seed: rng.Derive(l.batch, rng.Sample, ids...),
		from: l.from, restart: l.Attempt > 0,
	}
}

// lock locks what episodes that are played by themselves share.
func (p *Player) lock() (unlock func()) {
	if p.shared == nil {
		return func() {}
	}
	p.shared.Lock()
	return p.shared.Unlock
}

// newKey returns the key of a new conversation.
func (p *Player) newKey() uint64 {
	defer p.lock()()
	p.keys++
	return p.FirstKey + p.keys
}

// each runs f for every episode on the workers and waits until all have finished.
func (p *Player) each(ls []*live, f func(*live)) {
	if len(ls) == 1 {
		f(ls[0])
		return
	}
	work := make(chan *live)
	var wg sync.WaitGroup
	var counted []*live
	for _, l := range ls {
		if p.uncounted(l) {
			wg.Go(func() { f(l) })
		} else {
			counted = append(counted, l)
		}
	}
	for range min(max(1, p.Workers), len(counted)) {
		wg.Go(func() {
			for l := range work {
				f(l)
			}
		})
	}
	for _, l := range counted {
		work <- l
	}
	close(work)
	wg.Wait()
}

// uncounted reports whether the calls of an episode's environment need no worker.
func (p *Player) uncounted(l *live) bool { return p.UncountedRemote && p.Envs.Remote(l.Env) }
