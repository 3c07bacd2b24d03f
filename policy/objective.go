package policy

import (
	"fmt"
	"maps"

	"vagen/policy/loss"
)

// PolicyLoss returns the policy loss: Policy, or loss.DefaultPPO if it is nil.
func (o *Objective) PolicyLoss() loss.Policy {
	if o.Policy == nil {
		return loss.DefaultPPO()
	}
	return o.Policy
}

// Check returns an error if the policy loss rejects its settings, or the KL is unknown.
// Errors wrap loss.ErrSetting and loss.ErrUnknown.
func (o *Objective) Check() error {
	if _, err := loss.ModeOf(o.PolicyLoss()); err != nil {
		return fmt.Errorf("policy: objective: Policy: %w", err)
	}
	if err := o.KL.Check(); err != nil {
		return fmt.Errorf("policy: objective: KL: %w", err)
	}
	return nil
}

// Evaluation is the part of an Objective that depends on log-probs, in plain Go. A
// Learner adds the entropy and value terms if it has them.
type Evaluation struct {
	Loss float64 // Σ w·policy loss, or −Σ w·log-prob with Imitate
	KL   float64 // Σ aux·KL
	// Slope is the derivative of Loss + KLCoef·KL by each token's log-prob, flat like
	// Rows.Tokens; 0 at tokens without Weight.
	Slope    []float64
	ApproxKL float64      // Σ w·(old − new)
	Metrics  loss.Metrics // of the policy loss; zero with Imitate
}

// Eval evaluates policy loss and KL for the log-probs that the policy gives the batch's
// tokens now, flat like Rows.Tokens. Only tokens with Weight are read. NaN and infinity
// there give loss.ErrNotFinite, columns of other lengths loss.ErrLength.
func (o *Objective) Eval(b *Batch, logProbs []float32) (*Evaluation, error) {
	n := len(b.Tokens)
	for _, c := range []struct {
		name   string
		values []float32
		need   bool
	}{
		{"log-probs", logProbs, true}, {"Weight", b.Weight, true}, {"AuxWeight", b.AuxWeight, false},
		{"Reference", b.Reference, !o.Imitate && o.KL != loss.NoKL},
	} {
		if len(c.values) != n && (c.need || c.values != nil) {
			return nil, fmt.Errorf("policy: objective: %s has %d numbers for %d tokens: %w", c.name, len(c.values), n, loss.ErrLength)
		}
	}
	if o.Imitate {
		return imitation(b, logProbs), nil
	}
	mask := make([]bool, n)
	for i, w := range b.Weight {
		mask[i] = w != 0
	}
	batch := &loss.Batch[float32]{
		Offsets: b.Offsets, Mask: mask, LogProb: logProbs, OldLogProb: b.OldLogProbs, Advantage: b.Advantages,
		Weight: b.RolloutWeight, Ref: b.Reference, Turn: b.Turn, Seed: b.Seed,
	}
	if b.Turn != nil && len(b.Turn) != n {
		return nil, fmt.Errorf("policy: objective: Turn has %d numbers for %d tokens: %w", len(b.Turn), n, loss.ErrLength)
	}
	var r loss.Result
	if err := loss.EvalWeighted(&r, o.PolicyLoss(), b.Weight, batch); err != nil {
		return nil, fmt.Errorf("policy: objective: %w", err)
	}
	e := &Evaluation{Loss: r.Loss, Slope: r.Grad, Metrics: r.Metrics}
	aux := b.AuxWeight
	if aux == nil {
		aux = b.Weight
	}
	for i, m := range mask {
		if !m {
			continue
		}
		e.ApproxKL += float64(b.Weight[i]) * (float64(b.OldLogProbs[i]) - float64(logProbs[i]))
		if o.KL == loss.NoKL {
			continue
		}
		kl, slope, err := o.KL.Of(float64(logProbs[i]), float64(b.Reference[i]))
		if err != nil {
			return nil, fmt.Errorf("policy: objective: %w", err)
		}
		e.KL += float64(aux[i]) * kl
		e.Slope[i] += o.KLCoef * float64(aux[i]) * slope
	}
	return e, nil
}

// imitation is the evaluation of −Σ w·log-prob.
func imitation(b *Batch, logProbs []float32) *Evaluation {
	e := &Evaluation{Slope: make([]float64, len(logProbs))}
	for i, w := range b.Weight {
		if w != 0 {
			e.Loss -= float64(w) * float64(logProbs[i])
			e.Slope[i] = -float64(w)
		}
	}
	return e
}

// Report sets the statistics of a step that the evaluation has.
func (e *Evaluation) Report(s *Stats, b *Batch) {
	s.PolicyLoss, s.KL = e.Loss, e.KL
	if e.Metrics.Tokens == 0 {
		return
	}
	var weight float64
	for _, w := range b.Weight {
		weight += float64(w)
	}
	if weight != 0 {
		s.ApproxKL = e.ApproxKL / weight
	}
	s.ClipFrac, s.ClipFracLow, s.RatioMax = e.Metrics.ClipFraction, e.Metrics.ClipFractionLower, e.Metrics.RatioMax
	s.Metrics = maps.Collect(e.Metrics.All())
}
