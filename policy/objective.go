package policy

import (
	"fmt"

	"vagen/policy/loss"
)

// LossOptions returns the settings of the policy loss as options of package policy/loss.
func (o *Objective) LossOptions() loss.Options {
	return loss.Options{
		ClipLow: o.ClipLow, ClipHigh: o.ClipHigh, DualClip: o.ClipDual, Clamp: !o.Unclamped,
		TauPos: o.TauPos, TauNeg: o.TauNeg,
		ClipCovRatio: o.CovRatio, ClipCovLow: o.CovLow, ClipCovHigh: o.CovHigh,
		KLCovRatio: o.CovRatio, KLCovCoef: o.CovCoef,
	}
}

// PolicyLoss builds the policy loss in plain Go. It is the reference for a Learner, and
// validates name and settings. Errors wrap loss.ErrUnknown and loss.ErrSetting.
func (o *Objective) PolicyLoss() (loss.Policy, error) {
	name := o.Loss
	if name == "" {
		name = "ppo"
	}
	p, err := loss.Builtin().New(name, o.LossOptions())
	if err != nil {
		return nil, fmt.Errorf("policy: objective: %w", err)
	}
	return p, nil
}
