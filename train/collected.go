package train

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"vagen/rollout"
	"vagen/train/track"
)

// Collected contains the episodes of a training step before its update. Entries of a State must
// not be changed.
type Collected struct {
	Step int // the step that the episodes are for
	// Policy is the step after whose update the policy was copied that played them; 0 is the
	// policy at the start of the run. With run.partial_rollouts it is the policy that began
	// them, and turns have their own.
	Policy    int
	Metrics   track.Metrics   // of playing the episodes; Step returns them with its own
	Baselines map[int]float64 // return of the greedy episode of each group
	// Episodes are all that were played, usable or not. Checkpoints store them in a file of
	// package rollout/store.
	Episodes []*rollout.Trajectory

	solved  map[int64]float64 // for State.Solved
	took    rollout.Timing    // of playing; 0 for episodes that were collected during earlier steps
	elapsed time.Duration     // of Collect
}

// NewCollected returns episodes that were played elsewhere or earlier as Collect returns them,
// for Score and Step. The policy that played them is that before the step.
func NewCollected(step int, episodes []*rollout.Trajectory) *Collected {
	c := &Collected{Step: step, Policy: step - 1, Metrics: track.Metrics{}, Episodes: episodes}
	if c.check() == nil {
		c.describe()
	}
	return c
}

// check returns an error if the episodes, or one of them, are nil.
func (c *Collected) check() error {
	if c == nil {
		return errors.New("train: the collected episodes are nil")
	}
	if i := slices.Index(c.Episodes, nil); i >= 0 {
		return fmt.Errorf("train: the collected episode %d is nil", i)
	}
	return nil
}

// describe adds the metrics of the episodes.
func (c *Collected) describe() {
	describe(c.Metrics, "train/", c.Episodes)
	describeResponses(c.Metrics, c.Episodes)
}

// staleness is the number of updates between the policy that played the episodes and the one
// that learns from them.
func (c *Collected) staleness() int { return c.Step - 1 - c.Policy }

// measureStaleness adds the number of updates between the policies that played the episodes and
// the one that learns from them. With partial rollouts each response has its own.
func (c *Collected) measureStaleness(partial bool) {
	mean, most, m := float64(c.staleness()), float64(c.staleness()), c.Metrics
	if partial {
		mean, most, m["rollout/partial_share"] = rollout.Staleness(c.Episodes, c.Step-1)
	}
	m["rollout/staleness_mean"], m["rollout/staleness_max"] = mean, most
}

// Collect returns the episodes of a training step, from 1, played by the current policy. It
// changes neither the learner nor the State, so that any step can be collected, any number of
// times. In the supervised stage (trainer.stage sft) there are no episodes.
//
// With run.async the episodes of the step after the last finished one are those that were
// collected meanwhile, if there are some, and Collect starts to collect those of the following
// steps with copies of the current policy. They are collected until ctx ends, which must
// therefore be the same in all steps; State waits for them. If collecting them fails, Collect
// returns the error when it is their turn, until Restore is called.
func (t *Trainer) Collect(ctx context.Context, step int) (*Collected, error) {
	if err := t.prepared(ctx); err != nil {
		return nil, err
	}
	began, p := time.Now(), &t.progress
	if err := p.checkWeights(); err != nil {
		return nil, err
	}
	if step < 1 {
		return nil, fmt.Errorf("train: collect: step is %d, must be 1 or more", step)
	}
	if t.supervises() {
		return &Collected{Step: step}, nil
	}
	out, err := t.collectOrTake(ctx, step)
	if err != nil {
		return nil, err
	}
	if t.Config.Run.Async {
		out.measureStaleness(t.Config.Run.Partial)
	}
	if step == p.Step+1 {
		if err := t.startPrefetches(ctx); err != nil {
			return nil, err
		}
	}
	out.elapsed = time.Since(began)
	return out, nil
}

// collectOrTake returns the prefetched episodes of a step, or plays new ones.
func (t *Trainer) collectOrTake(ctx context.Context, step int) (*Collected, error) {
	p := &t.progress
	switch e, err := p.next(ctx, step); {
	case err != nil:
		return nil, err
	case e != nil:
		p.ahead = p.ahead[1:]
		out := *e // a checkpoint that is being written has the entry
		out.Metrics = maps.Clone(e.Metrics)
		return &out, nil
	}
	k := t.collecting()
	out, took, err := k.collect(ctx, t.Learner, step, t.stability.seed())
	if err != nil {
		return nil, err
	}
	out.Policy, out.took = p.Step, took
	return out, nil
}
