package rollout

import (
	"context"
	"fmt"
	"sync"
	"time"

	"vagen/policy"
)

// wave is the part of the episodes that the policy answers in one batch.
type wave struct {
	episodes []*live
	arrived  chan *live // episodes whose environment has answered
	running  int        // calls of environments that are running
	single   bool       // its only episode has nothing to wait for but its own calls
}

// wait waits for the environments of the wave. With a positive patience it returns
// after that time, as soon as an episode is ready to continue.
func (w *wave) wait(patience time.Duration) {
	var over <-chan time.Time
	if patience > 0 && w.running > 0 {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		over = timer.C
	}
	expired := false
	for w.running > 0 && !(expired && w.ready()) {
		select {
		case l := <-w.arrived:
			l.running = false
			w.running--
		case <-over:
			expired = true
		}
	}
}

// ready reports whether an episode waits for the policy, will be played again, or has one to follow.
func (w *wave) ready() bool {
	for _, l := range w.episodes {
		if !l.running && (!l.ended || l.retry || l.followed) {
			return true
		}
	}
	return false
}

// run advances the waves round by round until no episode is live.
func (p *Player) run(ctx context.Context, waves []*wave, took *Timing, slots chan struct{}) error {
	envs, cancel := context.WithCancel(ctx)
	defer func() {
		cancel() // ends running calls when the batch has failed
		for _, w := range waves {
			w.wait(0)
		}
	}()
	for {
		busy := false
		for _, w := range waves {
			begin := time.Now()
			w.wait(p.Patience)
			took.Env += time.Since(begin)
			ready, restarting := p.partition(w)
			if len(ready) > 0 {
				begin = time.Now()
				err := p.generate(ctx, ready)
				took.Generate += time.Since(begin)
				if err != nil {
					return err
				}
			}
			begin = time.Now()
			for _, l := range append(restarting, ready...) {
				p.dispatch(envs, w, l, slots)
			}
			took.Env += time.Since(begin)
			busy = busy || len(ready)+len(restarting) > 0 || w.running > 0
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if !busy {
			return nil
		}
	}
}

// runEach runs every wave by itself. The times are those of the episode that took longest.
func (p *Player) runEach(ctx context.Context, waves []*wave, took *Timing, slots chan struct{}) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	times := make([]Timing, len(waves))
	for i := range waves {
		wg.Go(func() {
			if err := p.run(ctx, waves[i:i+1], &times[i], slots); err != nil {
				cancel(err) // the first one is the cause of the others
			}
		})
	}
	wg.Wait()
	for _, t := range times {
		took.Env, took.Generate = max(took.Env, t.Env), max(took.Generate, t.Generate)
	}
	return context.Cause(ctx)
}

// partition returns the episodes of a wave that wait for the policy, and those that
// will be played again. It makes the policy forget the episodes that have ended.
func (p *Player) partition(w *wave) (ready, restarting []*live) {
	var ended []uint64
	for _, l := range w.episodes {
		switch {
		case l.running:
		case l.ended && l.retry:
			ended = append(ended, l.key)
			l.Attempt++
			p.prepare(l)
			restarting = append(restarting, l)
		case l.ended:
			ended = append(ended, l.key)
			p.closeCaller(l)
			if p.succeed(l) {
				restarting = append(restarting, l)
			}
		case l.restart:
			restarting = append(restarting, l)
		default:
			ready = append(ready, l)
		}
	}
	p.Policy.Forget(ended...)
	return ready, restarting
}

// dispatch starts the call of an episode's environment as soon as a worker is free. That of an episode alone is waited
// for: nothing else could be done meanwhile.
func (p *Player) dispatch(ctx context.Context, w *wave, l *live, slots chan struct{}) {
	if l.ended || l.closed {
		p.decideRetry(l)
		return // no call is needed
	}
	if w.single {
		p.proceed(ctx, l, slots)
		return
	}
	l.running = true
	w.running++
	go func() {
		p.proceed(ctx, l, slots)
		w.arrived <- l
	}()
}

// proceed calls an episode's environment.
func (p *Player) proceed(ctx context.Context, l *live, slots chan struct{}) {
	if !p.uncounted(l) {
		slots <- struct{}{}
		defer func() { <-slots }()
	}
	if l.restart {
		p.restart(ctx, l)
	} else {
		p.step(ctx, l)
	}
	p.decideRetry(l)
}

// generate gets the policy's responses for some episodes. Episodes that end without
// a request are left out.
func (p *Player) generate(ctx context.Context, ls []*live) error {
	prompts := make([]policy.Prompt, 0, len(ls))
	asked := make([]*live, 0, len(ls))
	for _, l := range ls {
		prompt, ok := p.next(l)
		switch {
		case !ok:
		case l.resumes && l.from.Response != nil:
			p.record(l, l.from.given())
		default:
			prompts, asked = append(prompts, prompt), append(asked, l)
		}
	}
	if len(asked) == 0 {
		return nil
	}
	out, err := p.Policy.Generate(ctx, prompts, p.Sampling)
	if err != nil {
		return fmt.Errorf("rollout: generate: %w", err)
	}
	if len(out) != len(asked) {
		return fmt.Errorf("rollout: generate: the policy returned %d completions for %d prompts", len(out), len(asked))
	}
	for i, l := range asked {
		p.record(l, out[i])
	}
	return nil
}
