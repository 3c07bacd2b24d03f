package loss

import (
	"fmt"
	"math"
)

// Distill learns from a teacher instead of from advantages. With k the estimate of KL(π‖teacher) from the sampled
// token, or the divergence of the token's distributions, clamped to ±Clamp, the loss is that of Policy with the
// advantage −k, which has no gradient; without Policy it is k itself. Batch.Advantage is not read.
//
// On-policy distillation: arXiv:2306.13649; verl's distillation_loss has Policy PPO or none, prime-rl's ref_kl K1 and
// PrimeDPPO with Falling. TRL's self-distillation is a Divergence, or K1 with Reinforce, and Cap.
type Distill struct {
	Policy Policy     // nil: k itself
	KL     KL         // reads Batch.Ref; empty with Over
	Over   Divergence // reads Batch.Chosen and Batch.Teacher
	Clamp  float64    // bound of |k|; 0 for none
	Cap    float64    // a token's loss is multiplied by its ratio, at most this, without gradient; 0: not multiplied
}

// Local reports whether tokens are independent: see [Local].
func (p Distill) Local() bool { return p.Policy == nil || Local(p.Policy) }

// Sampled reports whether log-probs at sampling are read: see [Sampled].
func (p Distill) Sampled() bool { return Sampled(p.Policy) }

// Compares implements what [ChoiceOf] asks for.
func (p Distill) Compares() Choice { return p.Over.Choice }

// Teacher reports that p learns from a teacher: see [Teacher].
func (Distill) Teacher() bool { return true }

// Teacher reports whether a loss learns from a teacher: p has a method Teacher() bool that says so, or compares tokens.
// A configuration with such a loss must name one.
func Teacher(p Policy) bool {
	t, ok := p.(interface{ Teacher() bool })
	return ok && t.Teacher() || ChoiceOf(p) != Choice{}
}

// Terms implements [Policy].
func (p Distill) Terms(t *Terms, b *Batch[float64]) error {
	if err := ready(t, b, p.check()); err != nil {
		return err
	}
	over := p.Over.Form != ""
	if err := p.need(b, over); err != nil {
		return err
	}
	f, straight := p.KL.parts()
	advantage := zeros(t.taught.Advantage, len(b.Mask))
	t.taught = *b
	t.taught.Advantage = advantage
	if over {
		t.Chosen = zeros(t.Chosen, len(b.Chosen))
	}
	far := Distance{Min: math.Inf(1), Max: math.Inf(-1)}
	for i, m := range b.Mask {
		if !m {
			continue
		}
		var k, slope float64
		chosen := t.chosenOf(i)
		if over {
			at := i * len(chosen)
			k = p.Over.of(&t.pair, b.Chosen[at:][:len(chosen)], b.Teacher[at:][:len(chosen)], chosen)
		} else {
			d := b.LogProb[i] - b.Ref[i]
			if k, slope = f(d); straight {
				slope = d
			}
		}
		far.add(k, t.pair.mass)
		pass := 1.0
		if p.Clamp > 0 {
			k, pass = clamp(k, -p.Clamp, p.Clamp)
		}
		if p.Policy != nil {
			advantage[i], pass = -k, 0
		} else {
			t.Loss[i], t.Slope[i] = k, pass*slope
		}
		for j := range chosen {
			chosen[j] *= pass
		}
	}
	if p.Policy != nil {
		if err := t.add(p.Policy, &t.taught); err != nil {
			return err
		}
	}
	if far.Abs+far.StudentMass != 0 {
		t.own.Teacher = far
	}
	for i, m := range b.Mask {
		if m && p.Cap > 0 {
			t.times(i, min(math.Exp(clampedRatio(b.LogProb[i]-b.OldLogProb[i])), p.Cap))
		}
	}
	return nil
}

// need returns an error if the teacher's numbers are missing.
func (p Distill) need(b *Batch[float64], over bool) error {
	switch {
	case len(b.Mask) == 0:
	case over && len(b.Chosen) == 0:
		return fmt.Errorf("distillation: chosen log-probs: %w", ErrMissing)
	case !over && b.Ref == nil:
		return fmt.Errorf("distillation: ref_log_prob: %w", ErrMissing)
	}
	return nil
}

func (p Distill) check() error {
	if err := notNegative("distillation", bound{"Clamp", p.Clamp}, bound{"Cap", p.Cap}); err != nil {
		return err
	}
	if p.Over != (Divergence{}) {
		if p.KL != NoKL {
			return setting("distillation: KL is %q beside a divergence, want one of them", string(p.KL))
		}
		return p.Over.check()
	}
	if p.KL == NoKL {
		return setting("distillation: KL is empty, must be set")
	}
	return p.KL.Check()
}
