package reward

import (
	"fmt"

	"vagen/internal/floats"
)

// Controller holds the coefficient of the KL penalty across steps. The exported fields
// of an implementation are its state: saving and restoring them resumes it.
type Controller interface {
	// Coefficient returns the coefficient of the coming step.
	Coefficient() float64
	// Update adapts the coefficient to the measured KL of a step with this number of
	// rows. A number that is not finite is an error and changes nothing.
	Update(kl float64, rows int) error
}

var (
	_ Controller = (*FixedKL)(nil)
	_ Controller = (*AdaptiveKL)(nil)
)

// FixedKL is a coefficient that never changes.
type FixedKL struct {
	Value float64 `json:"value"` // the coefficient
}

// Coefficient implements Controller.
func (c *FixedKL) Coefficient() float64 { return c.Value }

// Update implements Controller. It checks its argument and changes nothing.
func (c *FixedKL) Update(kl float64, _ int) error { return checkKL(kl) }

// AdaptiveKL controls the KL towards a target (Ziegler et al., arXiv:1909.08593,
// section 2.2): after a step of n rows,
//
//	Value ← Value · max(0, 1 + clip(kl/Target − 1, −0.2, 0.2) · n/Horizon)
//
// The max is not in the paper: without it a step of more than 5·Horizon rows makes the
// coefficient negative, which turns the penalty into a reward.
type AdaptiveKL struct {
	Value   float64 `json:"value"`   // the coefficient
	Target  float64 `json:"target"`  // wanted KL, above 0
	Horizon float64 `json:"horizon"` // rows over which a full error changes Value by a fifth
}

// Coefficient implements Controller.
func (c *AdaptiveKL) Coefficient() float64 { return c.Value }

// Update implements Controller.
func (c *AdaptiveKL) Update(kl float64, rows int) error {
	if err := checkKL(kl); err != nil {
		return err
	}
	if err := c.check(); err != nil {
		return err
	}
	miss := min(max(kl/c.Target-1, -0.2), 0.2)
	c.Value *= max(0, 1+miss*float64(rows)/c.Horizon)
	return nil
}

func (c *AdaptiveKL) check() error {
	if !(c.Target > 0) || !(c.Horizon > 0) || !floats.Finite(c.Target) || !floats.Finite(c.Horizon) {
		return fmt.Errorf("reward: adaptive kl controller: target %v and horizon %v must be above 0 and finite", c.Target,
			c.Horizon)
	}
	return nil
}

func checkKL(kl float64) error {
	if !floats.Finite(kl) {
		return fmt.Errorf("reward: kl controller: the measured kl is %v, it must be finite", kl)
	}
	return nil
}

// NewController returns the controller of a kind, "fixed" or "adaptive"; the
// latter needs a target and a horizon above 0.
func NewController(kind string, coefficient, target, horizon float64) (Controller, error) {
	if !floats.Finite(coefficient) {
		return nil, fmt.Errorf("reward: kl controller: the coefficient is %v, it must be finite", coefficient)
	}
	switch kind {
	case "fixed":
		return &FixedKL{Value: coefficient}, nil
	case "adaptive":
		c := &AdaptiveKL{Value: coefficient, Target: target, Horizon: horizon}
		if err := c.check(); err != nil {
			return nil, err
		}
		return c, nil
	}
	return nil, fmt.Errorf("reward: kl controller %q is not one of fixed, adaptive", kind)
}
