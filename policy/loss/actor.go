package loss

import (
	"fmt"

	"vagen/internal/floats"
)

// Actor is the whole loss of the policy:
//
//	L = policy loss − EntropyCoef·entropy + KLCoef·KL(π‖π_ref)
//
// Entropy and KL are aggregated by Aggregation; so is the policy loss unless it has a
// fixed mode of its own (gspo, sapo, gmpo and the turn losses do).
type Actor struct {
	Policy      Policy      // the policy loss
	Aggregation Aggregation // of all three terms, unless Policy has a fixed mode
	EntropyCoef float64     // ≥ 0; needs Batch.Entropy when above 0
	KL          KL          // "" leaves the term out; else Batch.Ref is needed
	KLCoef      float64     // ≥ 0
}

// ActorResult is the loss of an Actor with its gradients. It keeps its memory
// as [Result] does.
type ActorResult struct {
	Policy, Entropy, KL float64   // the three terms of the micro-batch, without coefficients
	Term                float64   // Policy − EntropyCoef·Entropy + KLCoef·KL
	Loss                float64   // Term times the factor of Aggregation.Norm
	GradLogProb         []float64 // ∂Loss/∂log-prob, one per token
	GradChosen          []float64 // ∂Loss/∂Batch.Chosen; see Result
	GradEntropy         []float64 // all zero when EntropyCoef is 0
	Empty               bool      // no token counted; everything is 0
	Metrics             Metrics   // of the policy loss

	policy, kl, entropy Result
	wide                float64Copy
}

// EvalActor evaluates the actor's loss on a batch. Entropy is reported whenever
// Batch.Entropy is given. Errors are those of [Eval].
func EvalActor[T Float](dst *ActorResult, actor Actor, b *Batch[T]) error {
	if err := actor.check(b.Ref != nil, b.Entropy != nil, len(b.Mask)); err != nil {
		return err
	}
	if err := b.check(); err != nil {
		return err
	}
	w := widen(&dst.wide, b)
	if err := evalWide(&dst.policy, actor.Policy, actor.Aggregation, w); err != nil {
		return err
	}
	if err := evalKL(&dst.kl, actor.KL, actor.Aggregation, w); err != nil {
		return err
	}
	if err := evalEntropy(&dst.entropy, actor.Aggregation, w); err != nil {
		return err
	}
	dst.add(actor)
	return nil
}

// add combines the three terms.
func (r *ActorResult) add(actor Actor) {
	n := len(r.policy.Grad)
	r.Policy, r.Entropy, r.KL = r.policy.Term, r.entropy.Term, r.kl.Term
	r.Term = r.Policy - actor.EntropyCoef*r.Entropy + actor.KLCoef*r.KL
	r.Loss = r.policy.Loss - actor.EntropyCoef*r.entropy.Loss + actor.KLCoef*r.kl.Loss
	r.Empty, r.Metrics, r.GradChosen = r.policy.Empty, r.policy.Metrics, r.policy.GradChosen
	r.GradLogProb, r.GradEntropy = grow(r.GradLogProb, n), grow(r.GradEntropy, n)
	for i, g := range r.policy.Grad {
		r.GradLogProb[i] = g + actor.KLCoef*r.kl.Grad[i]
		r.GradEntropy[i] = -actor.EntropyCoef * r.entropy.Grad[i]
	}
}

// evalEntropy aggregates the entropy column; an absent one counts as 0.
func evalEntropy(dst *Result, a Aggregation, b *Batch[float64]) error {
	t := &dst.terms
	n := len(b.Mask)
	t.Loss, t.Slope = zeros(t.Loss, n), zeros(t.Slope, n)
	for i, m := range b.Mask {
		if m && b.Entropy != nil {
			t.Loss[i], t.Slope[i] = b.Entropy[i], 1
		}
	}
	return dst.collect(a, b.Offsets, b.Mask, t.Loss, t.Slope)
}

func (a Actor) check(ref, entropy bool, tokens int) error {
	if a.Policy == nil {
		return setting("actor: Policy is nil, must be set")
	}
	if !(a.EntropyCoef >= 0) || !floats.Finite(a.EntropyCoef) {
		return setting("actor: EntropyCoef = %v, want 0 or more", a.EntropyCoef)
	}
	if !(a.KLCoef >= 0) || !floats.Finite(a.KLCoef) {
		return setting("actor: KLCoef = %v, want 0 or more", a.KLCoef)
	}
	if err := a.KL.Check(); err != nil {
		return err
	}
	if a.KL != NoKL && !ref && tokens > 0 {
		return fmt.Errorf("loss: actor: KL %q: ref_log_prob: %w", string(a.KL), ErrMissing)
	}
	if a.EntropyCoef > 0 && !entropy && tokens > 0 {
		return fmt.Errorf("loss: actor: EntropyCoef %v: entropy: %w", a.EntropyCoef, ErrMissing)
	}
	return nil
}
