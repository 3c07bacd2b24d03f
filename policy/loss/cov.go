package loss

import (
	"cmp"
	"math"
	"slices"

	"vagen/internal/rng"
)

// ClipCov is PPO's surrogate without a few of the tokens that reduce entropy most. A
// token's covariance is
//
//	c = (A − mean A)·(log π − mean log π),   means over counted tokens
//
// Among tokens with CovLow < c < CovHigh that PPO's clip did not affect, at most
// max(1, ⌊Ratio·tokens⌋) drawn at random with Batch.Seed get ℓ = 0 and no
// gradient; every other token has ℓ of [PPO] without clamp or dual clip.
// Metrics.ClipFraction is the share of dropped tokens.
//
// Cui et al., arXiv:2505.22617, section 4.2.
type ClipCov struct {
	Low, High float64 // clip range of the ratio, as in PPO
	Ratio     float64 `yaml:"clip_cov_ratio" doc:"clip_cov: share of tokens that may be dropped"` // in (0, 1]
	CovLow    float64 `yaml:"clip_cov_lb" doc:"clip_cov: lower bound of the covariance of tokens that may be dropped"`
	CovHigh   float64 `yaml:"clip_cov_ub" doc:"clip_cov: upper bound of the covariance of tokens that may be dropped"`
}

// DefaultClipCov holds the published numbers.
func DefaultClipCov() ClipCov {
	return ClipCov{Low: 0.2, High: 0.2, Ratio: 0.0002, CovLow: 1, CovHigh: 5}
}

func (p ClipCov) check() error {
	if err := checkClip("clip_cov", p.Low, p.High); err != nil {
		return err
	}
	if !(p.CovLow < p.CovHigh) {
		return setting("clip_cov: CovLow = %v, CovHigh = %v, want CovLow below CovHigh", p.CovLow, p.CovHigh)
	}
	return checkShare("clip_cov", p.Ratio)
}

// Terms implements [Policy].
func (p ClipCov) Terms(t *Terms, b *Batch[float64]) error {
	if err := ready(t, b, p.check()); err != nil {
		return err
	}
	n := t.covariance(b)
	t.order = t.order[:0]
	for i, m := range b.Mask {
		if !m {
			continue
		}
		l, d, won := clipped(math.Exp(t.LogRatio[i]), b.Advantage[i], p.Low, p.High)
		t.Loss[i], t.Slope[i] = l, d
		if c := t.score[i]; !won && c > p.CovLow && c < p.CovHigh {
			t.order = append(t.order, i)
		}
	}
	for _, i := range draw(t.order, shareOf(p.Ratio, n), b.Seed) {
		t.Loss[i], t.Slope[i] = 0, 0
		t.Clipped++
	}
	return nil
}

// KLCov is the unclipped surrogate with a penalty on the tokens that reduce entropy most:
//
//	ℓ = −A·ρ                      ordinary tokens
//	ℓ = −A·ρ + Coef·|new − old|   the max(1, ⌊Ratio·tokens⌋) with the largest covariance
//
// with the covariance of [ClipCov]; ties are resolved in favour of the earlier token.
//
// Cui et al., arXiv:2505.22617, section 4.2.
type KLCov struct {
	Ratio float64 `yaml:"kl_cov_ratio" doc:"kl_cov: share of tokens that are penalised"` // in (0, 1]
	Coef  float64 `yaml:"ppo_kl_coef" doc:"kl_cov: weight of the penalty"`               // ≥ 0
}

// DefaultKLCov holds the numbers of verl; the paper's penalty has Coef 1.
func DefaultKLCov() KLCov { return KLCov{Ratio: 0.0002, Coef: 0.1} }

func (p KLCov) check() error {
	if !(p.Coef >= 0) || math.IsInf(p.Coef, 0) {
		return setting("kl_cov: Coef = %v, want 0 or more", p.Coef)
	}
	return checkShare("kl_cov", p.Ratio)
}

// Terms implements [Policy].
func (p KLCov) Terms(t *Terms, b *Batch[float64]) error {
	if err := ready(t, b, p.check()); err != nil {
		return err
	}
	n := t.covariance(b)
	t.order = t.order[:0]
	for i, m := range b.Mask {
		if m {
			l := -b.Advantage[i] * math.Exp(t.LogRatio[i])
			t.Loss[i], t.Slope[i] = l, l
			t.order = append(t.order, i)
		}
	}
	score := t.score
	slices.SortStableFunc(t.order, func(i, j int) int { return cmp.Compare(score[j], score[i]) })
	for _, i := range t.order[:min(shareOf(p.Ratio, n), n)] {
		lr := t.LogRatio[i]
		t.Loss[i] += p.Coef * math.Abs(lr)
		t.Slope[i] += p.Coef * sign(lr)
	}
	return nil
}

// covariance sets t.score and returns the number of counted tokens.
func (t *Terms) covariance(b *Batch[float64]) int {
	t.score = zeros(t.score, len(b.Mask))
	var adv, logp float64
	n := 0
	for i, m := range b.Mask {
		if m {
			adv += b.Advantage[i]
			logp += b.LogProb[i]
			n++
		}
	}
	adv, logp = adv/float64(n), logp/float64(n)
	for i, m := range b.Mask {
		if m {
			t.score[i] = (b.Advantage[i] - adv) * (b.LogProb[i] - logp)
		}
	}
	return n
}

// draw moves k random entries to the front of s, in place, and returns them.
func draw(s []int, k int, seed uint64) []int {
	k = min(k, len(s))
	for i := range k {
		j := i + int(rng.Derive(seed, rng.Shuffle, uint64(i))%uint64(len(s)-i))
		s[i], s[j] = s[j], s[i]
	}
	return s[:k]
}

func shareOf(ratio float64, n int) int { return max(1, int(ratio*float64(n))) }

func checkShare(name string, ratio float64) error {
	if !(ratio > 0 && ratio <= 1) {
		return setting("%s: Ratio = %v, want more than 0, at most 1", name, ratio)
	}
	return nil
}

func sign(x float64) float64 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return 0
}
