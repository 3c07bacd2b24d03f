package rollout

import (
	"context"
	"fmt"
	"time"

	"vagen/policy"
)

// wave is a part of the episodes that is asked in one batch.
type wave struct {
	episodes []*live
	arrived  chan *live // environments that have answered
	away     int        // environments at work
}

// take notes that an environment has answered.
func (w *wave) take(l *live) {
	l.away = false
	w.away--
}

// wait waits for the environments of the wave. With patience, it returns when that
// is over and there is something to go on with.
func (w *wave) wait(patience time.Duration) {
	var over <-chan time.Time
	if patience > 0 && w.away > 0 {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		over = timer.C
	}
	impatient := false
	for w.away > 0 && !(impatient && w.idle()) {
		select {
		case l := <-w.arrived:
			w.take(l)
		case <-over:
			impatient = true
		}
	}
}

// idle reports whether some episode waits for the policy, or has to be played
// again.
func (w *wave) idle() bool {
	for _, l := range w.episodes {
		if !l.away && (!l.over || l.again) {
			return true
		}
	}
	return false
}

// run advances the waves round by round until no episode is live.
func (p *Player) run(ctx context.Context, waves []*wave, took *Timing) error {
	slots := make(chan struct{}, max(1, p.Workers))
	envs, cancel := context.WithCancel(ctx)
	defer func() {
		cancel() // nobody waits for the environments of a batch that has failed
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
			ready, again := p.sort(w)
			if len(ready) > 0 {
				begin = time.Now()
				err := p.answer(ctx, ready)
				took.Generate += time.Since(begin)
				if err != nil {
					return err
				}
			}
			for _, l := range append(again, ready...) {
				p.send(envs, w, l, slots)
			}
			busy = busy || len(ready) > 0 || w.away > 0
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if !busy {
			return nil
		}
	}
}

// sort lists the episodes of a wave that the policy has to answer, and those that
// are to be played again. It lets the policy forget those that have ended.
func (p *Player) sort(w *wave) (ready, again []*live) {
	var ended []uint64
	for _, l := range w.episodes {
		switch {
		case l.away:
		case l.over && l.again:
			ended = append(ended, l.key)
			l.Attempt++
			p.begin(l)
			again = append(again, l)
		case l.over:
			ended = append(ended, l.key)
		default:
			ready = append(ready, l)
		}
	}
	p.Policy.Forget(ended...)
	return ready, again
}

// send has an episode's environment answer, as soon as a worker is free.
func (p *Player) send(ctx context.Context, w *wave, l *live, slots chan struct{}) {
	if l.over || l.closed {
		p.settle(l)
		return // there is nothing to answer
	}
	l.away = true
	w.away++
	go func() {
		slots <- struct{}{}
		if len(l.Turns) == 0 {
			p.reopen(ctx, l)
		} else {
			p.step(ctx, l)
		}
		<-slots
		p.settle(l)
		w.arrived <- l
	}()
}

// answer asks the policy for the responses of some episodes. Those that end
// without being asked are left over.
func (p *Player) answer(ctx context.Context, ls []*live) error {
	prompts := make([]policy.Prompt, 0, len(ls))
	asked := make([]*live, 0, len(ls))
	for _, l := range ls {
		if prompt, ok := p.next(l); ok {
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
		return fmt.Errorf("rollout: the policy gave %d completions for %d prompts", len(out), len(asked))
	}
	for i, l := range asked {
		p.record(l, out[i])
	}
	return nil
}
