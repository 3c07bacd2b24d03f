package loss

import (
	"math"

	"vagen/internal/floats"
)

// DPPO drops a token if its probability has left a trust region in the direction in which its
// advantage pushes it. With p, p₀ the token's probability now and before, ρ = exp(new − old
// log-prob, clamped to ±20) and sg for "no gradient",
//
//	ℓ = −A·sg(min(ρ, Cap))·log π   if kept, else 0
//
// A token is kept if its distance is at most High where A > 0, at most Low elsewhere, or if p has
// moved the other way. The distance is p − p₀, or with KL that of the two events "this token" and
// "another one": K = p₀·(old − new) + (1−p₀)·ln((1−p₀)/(1−p)), 1e-8 added inside the logarithm.
//
// With Surrogate, as in SkyRL, ℓ = −A·ρ with a gradient of ρ that is 0 beyond ±20, a token whose advantage is 0 is
// kept, and Batch.Sampled takes the place of the old log-probs.
//
// arXiv:2602.04879, as verl's dppo_tv and dppo_kl, which read clip_ratio_low, clip_ratio_high and
// clip_ratio_c (3) for Low, High and Cap; SkyRL's dppo has delta_low and delta_high (0.2).
type DPPO struct {
	Low, High float64 // largest distances, in [0, 1]; with KL in nats, not negative
	Cap       float64 // largest weight of a token, > 1; 0 for none
	KL        bool
	Surrogate bool // not with Cap
}

// Sampled reports whether log-probs at sampling are read: see [Sampled].
func (p DPPO) Sampled() bool { return p.Surrogate }

// Local reports that tokens are independent: see [Local].
func (DPPO) Local() bool { return true }

// Terms implements [Policy].
func (p DPPO) Terms(t *Terms, b *Batch[float64]) error {
	if err := ready(t, b, p.check()); err != nil {
		return err
	}
	before := b.before(p.Surrogate)
	for i, m := range b.Mask {
		if !m {
			continue
		}
		lr, pass := clamp(b.LogProb[i]-before[i], -maxLogRatio, maxLogRatio)
		t.LogRatio[i] = lr
		if !(p.Surrogate && b.Advantage[i] == 0) && !p.keeps(b.LogProb[i], before[i], b.Advantage[i]) {
			t.Clipped++
			continue
		}
		ratio := math.Exp(lr)
		if p.Surrogate {
			t.Loss[i] = -b.Advantage[i] * ratio
			t.Slope[i] = t.Loss[i] * pass
			continue
		}
		if p.Cap > 0 && ratio > p.Cap {
			ratio = p.Cap
			t.ClippedLower++
		}
		t.Slope[i] = -b.Advantage[i] * ratio
		t.Loss[i] = t.Slope[i] * b.LogProb[i]
	}
	return nil
}

// keeps reports whether a token is inside the trust region, or moves towards it.
func (p DPPO) keeps(now, old, adv float64) bool {
	is, was := math.Exp(now), math.Exp(old)
	if !p.KL {
		if adv > 0 {
			return is-was <= p.High
		}
		return is-was >= -p.Low
	}
	others, othersWere := max(0, 1-is), max(0, 1-was) // log-probs that were rounded may be above 0
	distance := was*(old-now) + othersWere*math.Log((othersWere+1e-8)/(others+1e-8))
	if adv > 0 {
		return distance <= p.High || is <= was
	}
	return distance <= p.Low || is >= was
}

func (p DPPO) check() error {
	if err := notNegative("dppo", bound{"Low", p.Low}, bound{"High", p.High}); err != nil {
		return err
	}
	if p.Surrogate && p.Cap != 0 {
		return setting("dppo: Cap = %v, want 0 with Surrogate", p.Cap)
	}
	if p.Cap != 0 && !(p.Cap > 1 && floats.Finite(p.Cap)) {
		return setting("dppo: Cap = %v, want more than 1, or 0 for none", p.Cap)
	}
	return nil
}

// PrimeDPPO is DPPO as in prime-rl: the ratio has a gradient, and all tokens are drawn back,
//
//	ℓ = −AdvTau·A·ρ (kept, else 0) + KLTau·(new − old)²
//
// where a token is dropped if p − p₀ > High and A > 0, or p − p₀ < −Low and A ≤ 0; with Symmetric (prime-rl's ipo)
// if |p − p₀| > High, with Falling (its ref_kl) if p − p₀ < −Low, whatever A. Nothing is clamped. As in the original,
// old log-probs are those at sampling: Batch.Sampled, or without it OldLogProb.
type PrimeDPPO struct {
	// Largest distances, not negative; Low is not read if Symmetric.
	Low  float64 `yaml:"dppo_mask_low" range:"0,1e+12" doc:"dppo_prime, ref_kl: largest fall of a token's probability"`
	High float64 `yaml:"dppo_mask_high" range:"0,1e+12" doc:"dppo_prime: largest rise of a token's probability"`

	AdvTau float64 `yaml:"adv_tau" range:"0,1e+12" doc:"dppo_prime, ipo: factor of the advantage"`                // not negative
	KLTau  float64 `yaml:"kl_tau" range:"0,1e+12" doc:"dppo_prime, ipo, ref_kl: weight of the squared log-ratio"` // not negative

	Symmetric bool
	Falling   bool // not with Symmetric
}

// Local reports that tokens are independent: see [Local].
func (PrimeDPPO) Local() bool { return true }

// Sampled reports that log-probs at sampling are read: see [Sampled].
func (PrimeDPPO) Sampled() bool { return true }

// Terms implements [Policy].
func (p PrimeDPPO) Terms(t *Terms, b *Batch[float64]) error {
	if err := ready(t, b, p.check()); err != nil {
		return err
	}
	before := b.before(true)
	for i, m := range b.Mask {
		if !m {
			continue
		}
		d := b.LogProb[i] - before[i]
		t.LogRatio[i], t.Loss[i], t.Slope[i] = d, p.KLTau*d*d, 2*p.KLTau*d
		mismatch := min(math.Expm1(d)-d, 1e100) // a mean of them is finite
		if p.drops(math.Exp(b.LogProb[i])-math.Exp(before[i]), b.Advantage[i]) {
			t.Clipped++
			t.own.Dropped.KL += mismatch
			if b.Advantage[i] > 0 {
				t.own.Dropped.High++
			} else if b.Advantage[i] < 0 {
				t.own.Dropped.Low++
			}
			continue
		}
		t.own.Dropped.KLOfOthers += mismatch
		gain := p.AdvTau * b.Advantage[i] * math.Exp(d)
		t.Loss[i] -= gain
		t.Slope[i] -= gain
	}
	return nil
}

func (p PrimeDPPO) check() error {
	return notNegative("dppo_prime", bound{"Low", p.Low}, bound{"High", p.High}, bound{"AdvTau", p.AdvTau},
		bound{"KLTau", p.KLTau})
}

// bound is a setting of a loss.
type bound struct {
	name  string
	value float64
}

// notNegative returns an error for the first setting that is negative or not finite.
func notNegative(loss string, settings ...bound) error {
	for _, n := range settings {
		if !(n.value >= 0) || !floats.Finite(n.value) {
			return setting("%s: %s = %v, want 0 or more", loss, n.name, n.value)
		}
	}
	return nil
}

func (p PrimeDPPO) drops(moved, adv float64) bool {
	switch {
	case p.Symmetric:
		return math.Abs(moved) > p.High
	case adv > 0 && !p.Falling:
		return moved > p.High
	}
	return moved < -p.Low
}

// DRO is the policy gradient with a quadratic price for leaving the old policy:
//
//	ℓ = −(A·log π − ½·Beta·(new − old)²)
//
// Nothing is clamped. Richemond et al., arXiv:2405.19107, as in verl.
type DRO struct {
	// Beta is above 0.
	Beta float64 `yaml:"dro_beta" range:">0,1e+12" must:"be above 0 and at most 1e12" doc:"dro: weight of the squared log-ratio; verl has no default and demands one"`
}

// Local reports that tokens are independent: see [Local].
func (DRO) Local() bool { return true }

// Terms implements [Policy].
func (p DRO) Terms(t *Terms, b *Batch[float64]) error {
	if err := ready(t, b, p.check()); err != nil {
		return err
	}
	for i, m := range b.Mask {
		if !m {
			continue
		}
		d, adv := t.LogRatio[i], b.Advantage[i]
		t.Loss[i] = -(adv*b.LogProb[i] - p.Beta/2*d*d)
		t.Slope[i] = -(adv - p.Beta*d)
	}
	return nil
}

func (p DRO) check() error {
	if !(p.Beta > 0) || !floats.Finite(p.Beta) {
		return setting("dro: Beta = %v, want more than 0", p.Beta)
	}
	return nil
}
