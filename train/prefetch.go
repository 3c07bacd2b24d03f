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

// Prefetched contains a step's episodes. With run.async they are collected during the update
// of the step before, with the policy before that update. They are then part of a run's State
// and must not be changed.
type Prefetched struct {
	Step      int             `json:"step"` // the step that the episodes are for
	Metrics   track.Metrics   `json:"metrics"`
	Baselines map[int]float64 `json:"baselines,omitempty"` // return of the greedy episode of each group
	// Checkpoints store the episodes in a file of package rollout/store.
	Episodes []*rollout.Trajectory `json:"-"`
}

// prefetch is the collection of a step's episodes during the update of the step
// before. Nil means no collection.
type prefetch struct {
	cancel    context.CancelFunc
	done      chan struct{}
	collected *Prefetched
	err       error
}

// startPrefetch starts to collect a step's episodes with a snapshot of the current policy. It
// returns when the learner may change.
func (t *Trainer) startPrefetch(ctx context.Context, step int) (*prefetch, error) {
	if !t.Config.Run.Async || step > t.Config.Trainer.Steps {
		return nil, nil
	}
	snapshotter, ok := t.Learner.(policy.PolicySnapshotter)
	if !ok {
		return nil, errNoPolicySnapshots(t.Learner)
	}
	snapshot, err := snapshotter.SnapshotPolicy(ctx)
	if err != nil {
		return nil, err
	}
	// Like the concurrent update, it is not interrupted if interrupted runs are saved: a run
	// could not be resumed from the new weights without these episodes.
	ctx, cancel := context.WithCancel(t.updateContext(ctx))
	p := &prefetch{cancel: cancel, done: make(chan struct{})}
	c, seed := t.collector, t.stability.seed()
	go func() {
		defer close(p.done)
		p.collected, _, p.err = c.collect(ctx, snapshot, step, seed)
		p.err = errors.Join(p.err, snapshot.Close())
	}()
	return p, nil
}

// wait waits for the collection and returns its result, nil if there is none.
func (p *prefetch) wait() (*Prefetched, error) {
	if p == nil {
		return nil, nil
	}
	<-p.done
	return p.collected, p.err
}

// stop cancels the collection and waits for its end.
func (p *prefetch) stop() {
	if p == nil {
		return
	}
	p.cancel()
	<-p.done
}

func errNoPolicySnapshots(l policy.Learner) error {
	return fmt.Errorf("%w: run.async collects episodes while the learner changes, but the learner (%T) does not implement policy.PolicySnapshotter", config.ErrConfig, l)
}

// Names of the folder and the file with Prefetched episodes in a checkpoint.
const (
	PrefetchedFolder = "ahead"
	prefetchedFile   = "episodes.parquet"
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
	return store.Save(filepath.Join(dir, prefetchedFile), a.Step, a.Episodes)
}

// LoadPrefetched reads them back.
func LoadPrefetched(dir string, a *Prefetched) error {
	if a == nil {
		return nil
	}
	kept, err := store.Load(filepath.Join(dir, PrefetchedFolder, prefetchedFile))
	for _, s := range kept {
		a.Episodes = append(a.Episodes, s.Trajectory)
	}
	return err
}
