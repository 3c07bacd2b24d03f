package train

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"vagen/policy"
	"vagen/train/config"
	"vagen/train/track"
)

// PrefetchedSteps are the episodes of the steps after a State's, one entry for each step, in
// order. As JSON, one entry is an object and several are an array. An entry without the key
// policy has a staleness of one.
type PrefetchedSteps []*Collected

// prefetchedJSON is an entry as JSON.
type prefetchedJSON struct {
	Step      int               `json:"step"`
	Policy    *int              `json:"policy,omitempty"`
	Metrics   track.Metrics     `json:"metrics"`
	Baselines map[int]float64   `json:"baselines,omitempty"`
	Solved    map[int64]float64 `json:"solved,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (s PrefetchedSteps) MarshalJSON() ([]byte, error) {
	out := make([]prefetchedJSON, len(s))
	for i, p := range s {
		p = cmp.Or(p, new(Collected))
		out[i] = prefetchedJSON{Step: p.Step, Metrics: p.Metrics, Baselines: p.Baselines, Solved: p.solved}
		if p.staleness() != 1 {
			out[i].Policy = &p.Policy
		}
	}
	if len(out) == 1 {
		return json.Marshal(out[0])
	}
	return json.Marshal(out)
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *PrefetchedSteps) UnmarshalJSON(raw []byte) error {
	in := make([]prefetchedJSON, 1)
	if json.Unmarshal(raw, &in[0]) != nil {
		if err := json.Unmarshal(raw, &in); err != nil {
			return err
		}
	}
	*s = nil
	for _, p := range in {
		e := &Collected{Step: p.Step, Policy: p.Step - 2, Metrics: p.Metrics, Baselines: p.Baselines, solved: p.Solved}
		if p.Policy != nil {
			e.Policy = *p.Policy
		}
		*s = append(*s, e)
	}
	return nil
}

// validate refuses entries that do not belong to a state after a step.
func (s PrefetchedSteps) validate(step int) error {
	for i, p := range s {
		if p == nil {
			return fmt.Errorf("entry %d of the prefetched episodes is nil", i+1)
		}
		if p.Step != step+1+i {
			return fmt.Errorf("the state is of step %d, so entry %d of the prefetched episodes must be for step %d, but is for step %d", step, i+1, step+1+i, p.Step)
		}
		if p.Policy < 0 || p.Policy > step {
			return fmt.Errorf("the state is of step %d, so prefetched episodes must be from a policy of a step in [0, %d], but those for step %d are from one of step %d", step, step, p.Step, p.Policy)
		}
	}
	return nil
}

// prefetch is the collection of a step's episodes, which may be complete.
type prefetch struct {
	step      int
	cancel    context.CancelFunc
	done      chan struct{}
	collected *Collected // valid, like err, once done is closed
	err       error
}

// restored returns the collections of a state, which are complete, except episodes that are
// older than allowed.
func restored(s PrefetchedSteps, oldest int) (out []*prefetch) {
	for _, e := range s {
		if e.staleness() > oldest {
			break
		}
		p := &prefetch{step: e.Step, cancel: func() {}, done: make(chan struct{}), collected: e}
		close(p.done)
		out = append(out, p)
	}
	return out
}

// startPrefetches starts to collect the episodes of the run.max_staleness steps after the next
// one, except those that are being collected already, each with an own copy of the current
// policy. So the numbers of the steps alone decide which policy plays a step. It returns when the
// learner may change.
func (t *Trainer) startPrefetches(ctx context.Context) error {
	c, p := &t.Config, &t.progress
	if !c.Run.Async {
		return nil
	}
	for s := p.Step + 2 + len(p.ahead); s <= min(p.Step+1+c.Run.MaxStaleness, c.Trainer.Steps); s++ {
		e, err := t.startPrefetch(ctx, s)
		if err != nil {
			return err
		}
		p.ahead = append(p.ahead, e)
	}
	return nil
}

// startPrefetch starts to collect a step's episodes with a copy of the current policy.
// Collections that run at the same time do not share a copy, because episodes that a model
// plays together have an effect on each other's rounding.
func (t *Trainer) startPrefetch(ctx context.Context, step int) (*prefetch, error) {
	snapshotter, ok := policy.As[policy.PolicySnapshotter](t.Learner)
	if !ok {
		return nil, errNoPolicySnapshots(t.Learner)
	}
	snapshot, err := snapshotter.SnapshotPolicy(ctx)
	if err == nil && snapshot == nil {
		err = errors.New("train: the learner returned a nil copy of its policy")
	}
	if err != nil {
		return nil, err
	}
	// Like the concurrent update, it is not interrupted if interrupted runs are saved: a run
	// could not be resumed from the new weights without these episodes.
	ctx, cancel := context.WithCancel(t.updateContext(ctx))
	p := &prefetch{step: step, cancel: cancel, done: make(chan struct{})}
	c, seed, version := t.collecting(), t.stability.seed(), t.progress.Step
	go func() {
		defer close(p.done)
		p.collected, _, p.err = c.collect(ctx, snapshot, step, seed)
		if p.err = errors.Join(p.err, snapshot.Close()); p.err == nil {
			p.collected.Policy = version
		}
	}()
	return p, nil
}

// wait waits for the collection and returns its result.
func (p *prefetch) wait() (*Collected, error) {
	<-p.done
	return p.collected, p.err
}

// stopPrefetches cancels the collections of later steps, except some, and waits for their end.
func (p *progress) stopPrefetches(except []*prefetch) {
	kept := p.ahead[:0:0]
	for _, e := range p.ahead {
		if slices.Contains(except, e) {
			kept = append(kept, e)
			continue
		}
		e.cancel()
		<-e.done
	}
	p.ahead = kept
}

// withPrefetched returns a state with the episodes that belong to it, for which it waits.
func (p *progress) withPrefetched(s State) (State, error) {
	s.Prefetched = nil
	for _, e := range p.inSnapshots {
		collected, err := e.wait()
		if err != nil {
			return s, fmt.Errorf("train: state after step %d: %w: step %d: %w", s.Step, ErrIncompleteState, e.step, err)
		}
		s.Prefetched = append(s.Prefetched, collected)
	}
	return s, nil
}

// next returns the collected episodes of a step, for which it waits; nil if there are none.
func (p *progress) next(ctx context.Context, step int) (*Collected, error) {
	if len(p.ahead) == 0 || p.ahead[0].step != step {
		return nil, nil
	}
	c, err := p.ahead[0].wait()
	if ctx.Err() == nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		err = fmt.Errorf("train: step %d: the context with which its episodes were collected has ended: %w", step, err)
	}
	return c, err
}

func errNoPolicySnapshots(l policy.Learner) error {
	return fmt.Errorf("%w: run.async collects episodes while the learner changes, but the learner (%T) does not implement policy.PolicySnapshotter", config.ErrConfig, l)
}
