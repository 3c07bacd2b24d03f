package evaluate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"vagen/policy"
	"vagen/rollout"
)

// playBatches plays a task in batches. The split into batches does not depend on which
// episodes are missing.
func (e *Evaluation) playBatches(ctx context.Context, t *Task, missing []rollout.Episode) error {
	p := t.Player
	p.Policy = e.Policy
	wanted := map[place]bool{}
	for i := range missing {
		wanted[placeOf(&missing[i])] = true
	}
	return PlayBatches(t.context(ctx), &p, t.Episodes, t.AtOnce, t.Seed, func(e *rollout.Episode) bool {
		return wanted[placeOf(e)]
	}, func(ts []*rollout.Trajectory) error {
		for _, tr := range ts {
			if err := e.store(t, tr, policy.Usage{}); err != nil {
				return err
			}
		}
		return nil
	})
}

// PlayBatches plays episodes in batches of atOnce, 0 for a single batch, and calls done
// with the trajectories of each batch. It plays only the episodes that wanted accepts, each in
// the batch that it has in the whole list; nil plays all.
func PlayBatches(ctx context.Context, p *rollout.Player, episodes []rollout.Episode, atOnce int, seed uint64,
	wanted func(*rollout.Episode) bool, done func([]*rollout.Trajectory) error) error {
	if p == nil || done == nil {
		return errors.New("evaluate: the player or done is nil")
	}
	if atOnce < 0 {
		return fmt.Errorf("evaluate: atOnce is %d, must not be negative", atOnce)
	}
	if atOnce == 0 {
		atOnce = max(1, len(episodes))
	}
	for batch := range slices.Chunk(episodes, atOnce) {
		if wanted != nil {
			batch = slices.DeleteFunc(slices.Clone(batch), func(e rollout.Episode) bool { return !wanted(&e) })
		}
		if len(batch) == 0 {
			continue
		}
		ts, _, err := p.Play(ctx, batch, seed)
		if err != nil && !errors.Is(err, rollout.ErrNotStarted) { // failures are counted
			return err
		}
		if err := done(ts); err != nil {
			return err
		}
	}
	return nil
}

// playIndependently plays each episode independently, Concurrency at a time. The first error
// cancels the others.
func (e *Evaluation) playIndependently(ctx context.Context, t *Task, missing []rollout.Episode) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slots := make(chan struct{}, max(1, e.Concurrency))
	var wg sync.WaitGroup
	for _, ep := range missing {
		slots <- struct{}{}
		wg.Go(func() {
			if err := e.playOne(ctx, t, ep); err != nil {
				cancel(err)
			}
			<-slots
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// playOne plays an episode with keys of conversations that no other episode has.
func (e *Evaluation) playOne(ctx context.Context, t *Task, ep rollout.Episode) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	metered, used := policy.Meter(e.Policy)
	p := t.Player
	p.Policy, p.FirstKey = metered, e.played.Add(1)<<32
	ts, _, err := p.Play(t.context(ctx), []rollout.Episode{ep}, t.Seed)
	if err != nil && !errors.Is(err, rollout.ErrNotStarted) {
		return err
	}
	return e.store(t, ts[0], used())
}
