package train

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"vagen/policy"
	"vagen/rollout"
	"vagen/rollout/store"
	"vagen/train/config"
	"vagen/train/track"
)

// Prefetched is what was collected for a step before its turn came: with run.async,
// the episodes of the coming step, which the policy played as it was before the
// last update. It is part of a run's State and does not change once it is there.
type Prefetched struct {
	Step      int             `json:"step"` // that the episodes are for
	Metrics   track.Metrics   `json:"metrics"`
	Baselines map[int]float64 `json:"baselines,omitempty"` // what the greedy episode of each group earned
	// Episodes are kept by Checkpoints in a file of package rollout/store.
	Episodes []*rollout.Trajectory `json:"-"`
}

// gather has a policy play a step's episodes.
func (t *Trainer) gather(ctx context.Context, p policy.Policy, step int) (*Prefetched, rollout.Timing, error) {
	a := &Prefetched{Step: step, Metrics: track.Metrics{}}
	ts, took, err := t.play(ctx, p, step, a.Metrics)
	if err != nil {
		return nil, took, err
	}
	if err := t.markSections(ts); err != nil {
		return nil, took, err
	}
	if t.spec.Baselines {
		var more rollout.Timing
		if a.Baselines, more, err = t.baselines(ctx, p, step, ts); err != nil {
			return nil, took, err
		}
		took.Generate, took.Env = took.Generate+more.Generate, took.Env+more.Env
		a.Metrics["train/baselines"] = float64(len(a.Baselines))
	}
	a.Episodes = ts
	return a, took, nil
}

// episodes returns a step's episodes: those that were collected ahead, or new ones.
func (t *Trainer) episodes(ctx context.Context, step int) (*Prefetched, rollout.Timing, error) {
	if a := t.prefetched; a != nil && a.Step == step {
		return a, rollout.Timing{}, nil
	}
	return t.gather(ctx, t.Learner, step)
}

// collecting is a step's episodes while they are played behind the update of the
// step before. A nil collecting collects nothing.
type collecting struct {
	cancel context.CancelFunc
	done   chan struct{}
	got    *Prefetched
	err    error
}

// begin starts to collect a step's episodes with the policy as it is now. It
// returns when the learner may change.
func (t *Trainer) begin(ctx context.Context, step int) (*collecting, error) {
	if !t.Config.Run.Async || step > t.Config.Trainer.Steps {
		return nil, nil
	}
	lender, ok := t.Learner.(policy.PolicySnapshotter)
	if !ok {
		return nil, errNoLender(t.Learner)
	}
	lent, err := lender.SnapshotPolicy(ctx)
	if err != nil {
		return nil, err
	}
	// Like the update that it runs behind, it is not cut short where interrupted
	// runs are saved: with the step's new weights alone a run could not go on.
	ctx, cancel := context.WithCancel(t.updating(ctx))
	c := &collecting{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.got, _, c.err = t.gather(ctx, lent, step)
		c.err = errors.Join(c.err, lent.Close())
	}()
	return c, nil
}

// wait returns what was collected, nil if nothing was.
func (c *collecting) wait() (*Prefetched, error) {
	if c == nil {
		return nil, nil
	}
	<-c.done
	return c.got, c.err
}

// stop ends what is still at work, and waits for its end.
func (c *collecting) stop() {
	if c == nil {
		return
	}
	c.cancel()
	<-c.done
}

func errNoLender(l policy.Learner) error {
	return fmt.Errorf("%w: run.async collects episodes while the learner changes, but a %T cannot snapshot its policy (policy.PolicySnapshotter)", config.ErrConfig, l)
}

// Names of what a checkpoint keeps of an Ahead.
const (
	PrefetchedFolder = "ahead"
	aheadName        = "episodes.parquet"
)

// SavePrefetched writes the episodes of a state to a checkpoint's folder.
func SavePrefetched(dir string, a *Prefetched) error {
	if a == nil {
		return nil
	}
	dir = filepath.Join(dir, PrefetchedFolder)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return store.Save(filepath.Join(dir, aheadName), a.Step, a.Episodes)
}

// LoadPrefetched reads them back.
func LoadPrefetched(dir string, a *Prefetched) error {
	if a == nil {
		return nil
	}
	kept, err := store.Load(filepath.Join(dir, PrefetchedFolder, aheadName))
	for _, s := range kept {
		a.Episodes = append(a.Episodes, s.Trajectory)
	}
	return err
}
