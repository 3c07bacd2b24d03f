package loss

import (
	"math"

	"vagen/internal/floats"
)

// PPO is the clipped surrogate of proximal policy optimisation. With
// ρ = exp(new − old log-prob),
//
//	ℓ = max(−A·ρ, −A·clip(ρ, 1−Low, 1+High))
//
// and, where A < 0 and Dual is set, ℓ = min(ℓ, −A·Dual).
//
// Schulman et al., arXiv:1707.06347, eq. 7; unequal ranges: DAPO,
// arXiv:2503.14476; dual clip: Ye et al., arXiv:1912.09729, eq. 3.
//
// All fields are used literally; Low = High = 0 is allowed and stops every improvement
// over the old policy. See [DefaultPPO], [LitePPO]
// and [LegacyPPO].
type PPO struct {
	Low, High float64 // how far ρ may move below and above 1; Low in [0, 1], High ≥ 0
	Dual      float64 // largest factor on a negative advantage, > 1; 0 switches the dual clip off
	Clamp     bool    // bound the log-ratio to ±20 first, with no gradient beyond
}

// DefaultPPO is the policy loss of the default configuration and of a policy.Objective
// without one: ±0.2, no dual clip, log-ratio clamped.
func DefaultPPO() PPO { return PPO{Low: 0.2, High: 0.2, Clamp: true} }

// LitePPO is VAGEN lite's policy loss: DefaultPPO with a dual clip at 3.
func LitePPO() PPO { return PPO{Low: 0.2, High: 0.2, Dual: 3, Clamp: true} }

// LegacyPPO is the policy loss of the full VAGEN system: ±0.2, no dual clip,
// log-ratio not clamped. A log-ratio above 709 overflows and is an error.
func LegacyPPO() PPO { return PPO{Low: 0.2, High: 0.2} }

// Terms implements [Policy].
func (p PPO) Terms(t *Terms, b *Batch[float64]) error {
	if err := ready(t, b, p.check()); err != nil {
		return err
	}
	for i, m := range b.Mask {
		if !m {
			continue
		}
		lr, pass := t.LogRatio[i], 1.0
		if p.Clamp {
			lr, pass = clamp(lr, -maxLogRatio, maxLogRatio)
			t.LogRatio[i] = lr
		}
		t.Loss[i], t.Slope[i] = p.token(t, math.Exp(lr), b.Advantage[i])
		t.Slope[i] *= pass
	}
	return nil
}

// Local reports that tokens are independent: see [Local].
func (PPO) Local() bool { return true }

// token returns ℓ and ∂ℓ/∂ln ρ.
func (p PPO) token(t *Terms, ratio, adv float64) (float64, float64) {
	l, d, won := clipped(ratio, adv, p.Low, p.High)
	if won {
		t.Clipped++
	}
	if p.Dual > 0 && adv < 0 {
		bound := -adv * p.Dual
		if l > bound {
			t.ClippedLower++
		}
		l, d = minOf(l, d, bound, 0)
	}
	return l, d
}

// clipped is max(−A·ρ, −A·clip(ρ)) with its derivative by ln ρ, and whether the clipped
// side is the larger one.
func clipped(ratio, adv, low, high float64) (l, d float64, won bool) {
	first, dFirst := -adv*ratio, -adv*ratio
	inside, pass := clamp(ratio, 1-low, 1+high)
	second, dSecond := -adv*inside, pass*dFirst
	l, d = maxOf(first, dFirst, second, dSecond)
	return l, d, second > first
}

func (p PPO) check() error {
	if err := checkClip("ppo", p.Low, p.High); err != nil {
		return err
	}
	if p.Dual != 0 && !(p.Dual > 1 && floats.Finite(p.Dual)) {
		return setting("ppo: Dual = %v, want more than 1, or 0 for none", p.Dual)
	}
	return nil
}

func checkClip(name string, low, high float64) error {
	if !(low >= 0 && low <= 1) {
		return setting("%s: Low = %v, want 0 to 1", name, low)
	}
	if !(high >= 0) || math.IsInf(high, 0) {
		return setting("%s: High = %v, want 0 or more", name, high)
	}
	return nil
}

// Reinforce is the plain policy gradient,
//
//	ℓ = −A·log π
//
// without ratio or clip (Williams, 1992; GPG, arXiv:2504.02546). OldLogProb is used only
// for the metrics; put truncated importance weights into Batch.Weight if the data is not
// on-policy.
type Reinforce struct{}

// Local reports that tokens are independent: see [Local].
func (Reinforce) Local() bool { return true }

// GobEncode and GobDecode let encoding/gob send a loss without fields, which it refuses otherwise.
func (Reinforce) GobEncode() ([]byte, error) { return nil, nil }

// GobDecode is the inverse of GobEncode.
func (*Reinforce) GobDecode([]byte) error { return nil }

// Terms implements [Policy].
func (Reinforce) Terms(t *Terms, b *Batch[float64]) error {
	if err := ready(t, b, nil); err != nil {
		return err
	}
	for i, m := range b.Mask {
		if m {
			t.Loss[i], t.Slope[i] = -b.Advantage[i]*b.LogProb[i], -b.Advantage[i]
		}
	}
	return nil
}
