package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"vagen/policy"
	"vagen/reward"
	"vagen/train/config"
	"vagen/train/track"
)

// State is the state of a run between steps, except the learner's weights. A checkpoint
// stores it as JSON. A run resumed from a state and the weights of the same step equals an
// uninterrupted run.
type State struct {
	Step    int             `json:"step"`              // finished training steps
	KLCoef  float64         `json:"kl_coef"`           // coefficient for the next step
	Skipped int             `json:"skipped_in_a_row"`  // optimiser steps
	Rewards json.RawMessage `json:"rewards,omitempty"` // statistics of a running normalisation
	// Baselines are those of estimator rae, by environment.
	Baselines  map[string]float64 `json:"baselines,omitempty"`
	Prefetched PrefetchedSteps    `json:"ahead,omitempty"` // episodes collected for the next steps
	Best       *Best              `json:"best,omitempty"`  // best validation; Checkpointer.KeepBest has saved its policy
	Stability  StabilityState     `json:"trouble"`         // state of group stability
	// Solved has, with data.pools, the solve rates of the start states that were played: by position in
	// data.train_files after data.filter_overlong_prompts, or by the seed minus env.train_seed.
	Solved map[int64]float64 `json:"solved,omitempty"`
	// Interrupted means that the run was stopped directly after the step: the validation and
	// the checkpoint after it, if due, were not done.
	Interrupted bool `json:"interrupted,omitempty"`
}

// progress holds the changing State of a run, and the snapshots of it for checkpoints.
type progress struct {
	// State is the one in which Run starts. Steps change their numbers and replace its maps; the fields whose
	// values are elsewhere then, such as KLCoef, are set by state.
	State
	ahead       []*prefetch // collections of the next steps, in order, without gaps
	inSnapshots []*prefetch // those that are part of current and finished
	kl          reward.Controller
	normalizer  *reward.Normalizer // nil for none

	begun    bool   // steps were done since Restore or the start
	updating bool   // an update is running, so the weights belong to no finished step
	finished *State // directly after the last finished step; nil before the first one
	current  *State // the same, with the validation after the step
}

// state returns the current state without prefetched episodes.
func (p *progress) state(stability *StabilityState) (State, error) {
	s := p.State
	s.Stability, s.Rewards, s.Prefetched, s.Interrupted = stability.clone(), nil, nil, false
	if p.kl != nil {
		s.KLCoef = p.kl.Coefficient()
	}
	if p.normalizer != nil && p.normalizer.Running {
		raw, err := json.Marshal(p.normalizer)
		if err != nil {
			return s, fmt.Errorf("train: state: %w", err)
		}
		s.Rewards = raw
	}
	return s, nil
}

// snapshot records the current state.
func (p *progress) snapshot(stability *StabilityState) error {
	s, err := p.state(stability)
	if err == nil {
		p.current, p.inSnapshots = &s, slices.Clone(p.ahead)
	}
	return err
}

// finish records the state directly after a step.
func (p *progress) finish(stability *StabilityState) error {
	err := p.snapshot(stability)
	if err == nil {
		p.finished = p.current
	}
	return err
}

// checkWeights returns an error if the learner's weights belong to no step.
func (p *progress) checkWeights() error {
	if !p.updating {
		return nil
	}
	return fmt.Errorf("train: step %d: %w: restore a checkpoint and its State", p.Step+1, ErrUnfinishedUpdate)
}

// resume sets the progress to a restored state; the zero state is the start of a run. Prefetched
// episodes that are older than a number of updates are not used.
func (p *progress) resume(oldest int) error {
	p.ahead = restored(p.Prefetched, oldest)
	p.inSnapshots = p.ahead
	if a, ok := p.kl.(*reward.AdaptiveKL); ok && p.Step > 0 {
		a.Value = p.KLCoef
	}
	if p.Rewards == nil {
		return nil
	}
	if p.normalizer == nil || !p.normalizer.Running {
		return fmt.Errorf("train: state: %w: it has statistics of rewards, but reward.running is off", config.ErrConfig)
	}
	if err := json.Unmarshal(p.Rewards, p.normalizer); err != nil {
		return fmt.Errorf("train: state: %w", err)
	}
	return nil
}

// ErrIncompleteState means that episodes which belong to the state after the last finished step
// were not collected, because the run failed. A run that resumed without them would differ from an
// uninterrupted one, so the states to resume from are those of its checkpoints.
var ErrIncompleteState = errors.New("the state has no episodes for a step whose collection failed or was cancelled")

// State returns the state after the last finished step, for use when Run has returned. If Run
// ended with an error, it may have cancelled the collection of episodes that belong to the
// state (run.max_staleness above 1); the error then wraps ErrIncompleteState and the cause.
func (t *Trainer) State() (State, error) {
	p := &t.progress
	if p.current != nil {
		return p.withPrefetched(*p.current)
	}
	s, err := p.state(&t.stability.state)
	if err != nil {
		return s, err
	}
	return p.withPrefetched(s)
}

// Done returns the number of finished training steps.
func (t *Trainer) Done() int { return t.progress.Step }

// Restore makes the Trainer continue after the step of a state, of which the learner must have the
// weights. The configuration must be the one of the state's run.
func (t *Trainer) Restore(s State) error {
	if err := s.validate(); err != nil {
		return fmt.Errorf("train: state: %w", err)
	}
	t.progress.stopPrefetches(nil)
	t.progress, t.ready = progress{State: s}, false
	return nil
}

// validate refuses impossible states.
func (s *State) validate() error {
	if s.Step < 0 || s.Skipped < 0 || !(s.KLCoef >= 0) || math.IsInf(s.KLCoef, 1) {
		return fmt.Errorf("step %d, kl_coef %v and skipped_in_a_row %d must not be negative", s.Step, s.KLCoef, s.Skipped)
	}
	if s.Stability.Rollbacks < 0 || s.Stability.Stale < 0 {
		return fmt.Errorf("rollbacks %d and stale %d must not be negative", s.Stability.Rollbacks, s.Stability.Stale)
	}
	if err := s.Prefetched.validate(s.Step); err != nil {
		return err
	}
	for n, rate := range s.Solved {
		if !(rate >= 0 && rate <= 1) {
			return fmt.Errorf("solved: the rate of start state %d is %v, must be in [0, 1]", n, rate)
		}
	}
	if s.Rewards != nil {
		return json.Unmarshal(s.Rewards, new(reward.Normalizer))
	}
	return nil
}

// resume sets the loop to the restored state.
func (t *Trainer) resume() error {
	t.publisher.saved = t.progress.Step
	t.stability.state = t.progress.Stability.clone()
	defer t.announce()
	return t.progress.resume(t.Config.Run.MaxStaleness)
}

// announce tells a learner that wants to know it which step its weights are from.
func (t *Trainer) announce() {
	if l, ok := policy.As[policy.StepTracker](t.Learner); ok {
		l.Trained(t.progress.Step)
	}
}

// rollBack restores the newest checkpoint. The best policy is kept, because it is from before
// the spike.
func (t *Trainer) rollBack(ctx context.Context, step int) error {
	p := &t.progress
	rollbacks, best := t.stability.state.Rollbacks+1, p.Best
	p.updating = true
	p.stopPrefetches(nil) // copies of the policy do not survive Rollback
	s, err := t.Checkpointer.(Rollbacker).Rollback(ctx)
	if err != nil {
		return err
	}
	if err := s.validate(); err != nil {
		return fmt.Errorf("train: state: %w", err)
	}
	p.State, p.normalizer = s, t.Config.Reward.Normalizer()
	if err := t.resume(); err != nil {
		return err
	}
	p.updating = false
	t.stability.state.Rollbacks, p.Best = rollbacks, best
	p.ahead = nil // with the prefetched episodes the spike would occur again
	if err := p.finish(&t.stability.state); err != nil {
		return err
	}
	t.Log.Warn("rolled back", "from", step, "to", s.Step, "rollbacks", rollbacks)
	return t.publisher.publish(track.Event{Kind: track.KindRollback, Step: s.Step, Total: t.Config.Trainer.Steps,
		Metrics: track.Metrics{
			"train/rollbacks": float64(rollbacks), "train/rolled_back_from": float64(step),
		}})
}
