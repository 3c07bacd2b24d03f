package learn

import (
	"errors"
	"fmt"

	"vagen/internal/floats"
	"vagen/policy"
	"vagen/policy/loss"
	"vagen/policy/vlm/internal/net"
)

// CheckUpdate checks a batch against an objective before anything is computed.
func CheckUpdate(b *policy.Batch, o *policy.Objective, critic bool) error {
	if err := net.CheckTemperature(o.Temperature); err != nil {
		return fmt.Errorf("vlm: update: %w", err)
	}
	if err := b.Rows.Check(); err != nil {
		return fmt.Errorf("vlm: update: %w", err)
	}
	if err := checkColumns(b, o, critic); err != nil {
		return err
	}
	if o.Imitate {
		return nil
	}
	if err := o.Check(); err != nil {
		return fmt.Errorf("vlm: update: %w", err)
	}
	if o.CriticOnly {
		return nil
	}
	// What a loss refuses is refused before the model computes: with the old log-probs, the first evaluation.
	first := *o
	first.EntropyCoef = 0
	if _, err := first.Eval(b, &policy.Scores{LogProbs: b.OldLogProbs, ChosenLogProbs: b.Teacher}); err != nil &&
		!errors.Is(err, loss.ErrNotFinite) {
		return fmt.Errorf("vlm: update: %w", err)
	}
	return nil
}

// checkColumns returns an error for the first column whose length or values are invalid,
// or that the objective needs and the batch does not have.
func checkColumns(b *policy.Batch, o *policy.Objective, critic bool) error {
	n := len(b.Tokens)
	policyNeeds := !o.CriticOnly && !o.Imitate
	valueNeeds := critic && o.ValueCoef > 0 && !o.Imitate
	for _, c := range []struct {
		name   string
		values []float32
		need   bool
	}{
		{"Weight", b.Weight, !o.CriticOnly}, {"AuxWeight", b.AuxWeight, false}, {"EchoWeight", b.EchoWeight, false},
		{"ValueWeight", b.ValueWeight, valueNeeds}, {"OldLogProbs", b.OldLogProbs, policyNeeds},
		{"Advantages", b.Advantages, policyNeeds}, {"Reference", b.Reference, policyNeeds && o.KL != loss.NoKL},
		{"Sampled", b.Sampled, false}, {"Returns", b.Returns, valueNeeds},
		{"OldValues", b.OldValues, valueNeeds && o.ValueClip > 0}, {"RolloutWeight", b.RolloutWeight, false},
	} {
		if c.values == nil && c.need {
			return fmt.Errorf("vlm: update: %s: %w", c.name, loss.ErrMissing)
		}
		if c.values != nil && len(c.values) != n {
			return fmt.Errorf("vlm: update: %s has %d numbers for %d tokens: %w", c.name, len(c.values), n,
				loss.ErrLength)
		}
		for i, x := range c.values {
			if !floats.Finite(x) {
				return fmt.Errorf("vlm: update: %s at token %d is %v: %w", c.name, i, x, loss.ErrNotFinite)
			}
		}
	}
	for i, x := range b.RolloutWeight {
		if x < 0 {
			return fmt.Errorf("vlm: update: RolloutWeight at token %d is %v, must be 0 or more", i, x)
		}
	}
	for i, x := range b.AuxWeight {
		if x != 0 && b.Weight != nil && b.Weight[i] == 0 {
			return fmt.Errorf("vlm: update: AuxWeight at token %d is %v, must be 0 because Weight is 0", i, x)
		}
	}
	return nil
}
