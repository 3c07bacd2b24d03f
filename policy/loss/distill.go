package loss

import "fmt"

// Distill learns from a teacher, whose log-probs are in Batch.Ref, instead of from advantages. With k the estimate of
// KL(π‖teacher) from the sampled token, clamped to ±Clamp, the loss is that of Policy with the advantage −k, which has
// no gradient; without Policy it is k itself. Batch.Advantage is not read.
//
// On-policy distillation: arXiv:2306.13649; verl's distillation_loss has Policy PPO or none, prime-rl's ref_kl K1 and
// PrimeDPPO with Falling.
type Distill struct {
	Policy Policy  // nil: k itself
	KL     KL      // of the token; not empty
	Clamp  float64 // bound of |k|; 0 for none
}

// Local reports whether tokens are independent: see [Local].
func (p Distill) Local() bool { return p.Policy == nil || Local(p.Policy) }

// Teacher reports that p reads Batch.Ref: see [Teacher].
func (Distill) Teacher() bool { return true }

// Teacher reports whether a loss reads Batch.Ref itself: p has a method Teacher() bool that says so.
func Teacher(p Policy) bool {
	t, ok := p.(interface{ Teacher() bool })
	return ok && t.Teacher()
}

// Terms implements [Policy].
func (p Distill) Terms(t *Terms, b *Batch[float64]) error {
	if err := p.check(); err != nil {
		return err
	}
	if b.Ref == nil && len(b.Mask) > 0 {
		return fmt.Errorf("distillation: ref_log_prob: %w", ErrMissing)
	}
	f, straight := p.KL.parts()
	var advantage []float64
	if p.Policy != nil {
		advantage = zeros(t.taught.Advantage, len(b.Mask))
	}
	for i, m := range b.Mask {
		if !m {
			continue
		}
		d := b.LogProb[i] - b.Ref[i]
		k, slope := f(d)
		if straight {
			slope = d
		}
		if p.Clamp > 0 {
			var pass float64
			k, pass = clamp(k, -p.Clamp, p.Clamp)
			slope *= pass
		}
		if advantage != nil {
			advantage[i] = -k
		} else {
			t.Loss[i], t.Slope[i] = k, slope
		}
	}
	if p.Policy == nil {
		return nil
	}
	t.taught = *b
	t.taught.Advantage = advantage
	return p.Policy.Terms(t, &t.taught)
}

func (p Distill) check() error {
	if p.KL == NoKL {
		return setting("distillation: KL is empty, must be set")
	}
	if err := p.KL.Check(); err != nil {
		return err
	}
	return notNegative("distillation", bound{"Clamp", p.Clamp})
}
