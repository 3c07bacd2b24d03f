package train

import (
	"encoding/json"
	"fmt"
	"math"

	"vagen/reward"
	"vagen/train/config"
)

// State is what a run carries from step to step beside the learner's weights. A
// checkpoint stores it as JSON; with it and the weights of the same moment a run
// goes on as if it had never stopped.
type State struct {
	Step       int             `json:"step"`              // training steps done
	KLCoef     float64         `json:"kl_coef"`           // coefficient of the coming step
	Skipped    int             `json:"skipped_in_a_row"`  // optimiser steps
	Rewards    json.RawMessage `json:"rewards,omitempty"` // statistics of a running normalisation
	Prefetched *Prefetched     `json:"ahead,omitempty"`   // episodes that were collected for the coming step
	Best       *Best           `json:"best,omitempty"`    // validation that KeepBest was last called for
	Stability  StabilityState  `json:"trouble"`           // what group stability has seen
	// Interrupted says that the run was stopped right after the step: a validation
	// and a checkpoint that are due after it have yet to come.
	Interrupted bool `json:"interrupted,omitempty"`
}

// State returns the state after the last finished step. Call it from Save or Begin,
// or when Run has returned.
func (t *Trainer) State() (State, error) {
	if t.now != nil {
		return *t.now, nil
	}
	return t.state()
}

// Done is the number of training steps that are done.
func (t *Trainer) Done() int { return t.done }

// state describes this moment.
func (t *Trainer) state() (State, error) {
	s := State{Step: t.done, Skipped: t.skipped, Prefetched: t.prefetched, Best: t.best, Stability: t.stability.clone()}
	if t.kl != nil {
		s.KLCoef = t.kl.Coefficient()
	}
	if t.normalizer != nil && t.normalizer.Running {
		raw, err := json.Marshal(t.normalizer)
		if err != nil {
			return s, fmt.Errorf("train: state: %w", err)
		}
		s.Rewards = raw
	}
	return s, nil
}

// Restore makes Run go on after the step of a state instead of beginning anew. The
// configuration has to be the one that the state was made with.
func (t *Trainer) Restore(s State) error {
	if s.Step < 0 || s.Skipped < 0 || !(s.KLCoef >= 0) || math.IsInf(s.KLCoef, 1) {
		return fmt.Errorf("train: state: step %d, kl_coef %v and skipped_in_a_row %d must not be negative", s.Step, s.KLCoef, s.Skipped)
	}
	if s.Stability.Rollbacks < 0 || s.Stability.Stale < 0 {
		return fmt.Errorf("train: state: rollbacks %d and stale %d must not be negative", s.Stability.Rollbacks, s.Stability.Stale)
	}
	if a := s.Prefetched; a != nil && a.Step != s.Step+1 {
		return fmt.Errorf("train: state: step %d is followed by %d, but the episodes that were collected ahead are for step %d", s.Step, s.Step+1, a.Step)
	}
	if s.Rewards != nil {
		if err := json.Unmarshal(s.Rewards, new(reward.Normalizer)); err != nil {
			return fmt.Errorf("train: state: %w", err)
		}
	}
	t.from = s
	return nil
}

// resume puts the loop where the restored state was; the zero state is a run's
// beginning.
func (t *Trainer) resume() error {
	t.done, t.saved, t.skipped = t.from.Step, t.from.Step, t.from.Skipped
	t.best, t.prefetched, t.stability = t.from.Best, t.from.Prefetched, t.from.Stability.clone()
	if a, ok := t.kl.(*reward.AdaptiveKL); ok && t.from.Step > 0 {
		a.Value = t.from.KLCoef
	}
	if t.from.Rewards == nil {
		return nil
	}
	if t.normalizer == nil || !t.normalizer.Running {
		return fmt.Errorf("train: state: %w: it has statistics of rewards, but reward.running is off", config.ErrConfig)
	}
	if err := json.Unmarshal(t.from.Rewards, t.normalizer); err != nil {
		return fmt.Errorf("train: state: %w", err)
	}
	return nil
}
