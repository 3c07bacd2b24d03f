package loss

import (
	"cmp"
	"fmt"
	"math"

	"vagen/internal/floats"
)

// VESPO weighs a row's tokens by a smooth function of the row's joint ratio. With
//
//	L = Σ (new − old, clamped to ±20) + Σ ln w (in [ln 1e-8, 20]), then in [ln 1e-8, 20]
//
// over the row's counted tokens, w being Batch.Weight, and sg for "no gradient",
//
//	ℓ = −sg(exp(λ + k·L − λ·e^L))·A·log π
//
// with k, λ = KPos, LambdaPos where A ≥ 0 and KNeg, LambdaNeg elsewhere; the weight is 1 for L = 0
// and vanishes for large ratios. Batch.Weight enters by L alone.
//
// arXiv:2602.10693, as in TRL.
//
// No field may be negative; a λ below 1e-4 counts as that.
type VESPO struct {
	KPos      float64 `yaml:"vespo_k_pos" range:"0,1e+12" doc:"vespo: exponent of the ratio where the advantage is not negative"`
	LambdaPos float64 `yaml:"vespo_lambda_pos" range:"0,1e+12" doc:"vespo: how soon large ratios lose weight where the advantage is not negative"`
	KNeg      float64 `yaml:"vespo_k_neg" range:"0,1e+12" doc:"vespo: exponent of the ratio for negative advantages"`
	LambdaNeg float64 `yaml:"vespo_lambda_neg" range:"0,1e+12" doc:"vespo: how soon large ratios lose weight for negative advantages"`
}

// DefaultVESPO holds the published settings.
func DefaultVESPO() VESPO { return VESPO{KPos: 2, LambdaPos: 3, KNeg: 3, LambdaNeg: 2} }

// Terms implements [Policy].
func (p VESPO) Terms(t *Terms, b *Batch[float64]) error {
	err := ready(t, b, notNegative("vespo", bound{"KPos", p.KPos}, bound{"LambdaPos", p.LambdaPos},
		bound{"KNeg", p.KNeg}, bound{"LambdaNeg", p.LambdaNeg}))
	if err != nil {
		return err
	}
	if err := checkPositiveWeights(b); err != nil {
		return err
	}
	t.Weighted = true
	least := math.Log(1e-8)
	for r := range b.Rows() {
		sum, lo, hi := 0.0, b.Offsets[r], b.Offsets[r+1]
		for i := lo; i < hi; i++ {
			if !b.Mask[i] {
				continue
			}
			t.LogRatio[i] = clampedRatio(t.LogRatio[i])
			sum += t.LogRatio[i]
			if b.Weight != nil {
				sum += min(max(math.Log(b.Weight[i]), least), maxLogRatio)
			}
		}
		sum = min(max(sum, least), maxLogRatio)
		pos, neg := vespoWeight(p.KPos, p.LambdaPos, sum), vespoWeight(p.KNeg, p.LambdaNeg, sum)
		for i := lo; i < hi; i++ {
			if !b.Mask[i] {
				continue
			}
			w := pos
			if b.Advantage[i] < 0 {
				w = neg
			}
			t.Slope[i] = -w * b.Advantage[i]
			t.Loss[i] = t.Slope[i] * b.LogProb[i]
		}
	}
	return nil
}

// vespoWeight is exp(λ + k·L − λ·e^L), 0 where that is not finite.
func vespoWeight(k, lambda, l float64) float64 {
	lambda = max(lambda, 1e-4)
	w := math.Exp(lambda + k*l - lambda*math.Exp(l))
	if !floats.Finite(w) {
		return 0
	}
	return w
}

// LUSPO is [GSPO] with a row's loss counted once for each of its tokens, so that long rows are not
// at a disadvantage, and without a bound of the ratio:
//
//	ln s = Σ (new − old) / n over the row's n counted tokens
//	ℓ    = −min(min(s, Delta)·A, clip(s, 1−Low, 1+High)·A) at every token
//
// Aggregation is always seq-mean-token-sum. With a KL to the reference policy, ℓ has + KLCoef·s·KL, in which s is not
// bounded but has a gradient, and which Batch.Weight does not multiply. arXiv:2602.05261, as in TRL with
// importance_sampling_level: sequence; its KL, for use_bias_correction_kl, is K3.
type LUSPO struct {
	Low, High float64 // how far s may move below and above 1; Low in [0, 1], High ≥ 0
	Delta     float64 // bound of s in the first term, > 0; 0 for none
	KL        KL      // reads Batch.Ref; NoKL for none
	KLCoef    float64 // not negative
}

func (p LUSPO) check() error {
	return cmp.Or(notNegative("luspo", bound{"Delta", p.Delta}, bound{"KLCoef", p.KLCoef}), p.KL.Check(),
		checkClip("luspo", p.Low, p.High))
}

// Terms implements [Policy].
func (p LUSPO) Terms(t *Terms, b *Batch[float64]) error {
	if err := ready(t, b, p.check()); err != nil {
		return err
	}
	t.Mode, t.Weighted = SeqMeanTokenSum, p.KL != NoKL
	if p.KL != NoKL && b.Ref == nil && len(b.Mask) > 0 {
		return fmt.Errorf("luspo: ref_log_prob: %w", ErrMissing)
	}
	for r := range b.Rows() {
		lo, hi := b.Offsets[r], b.Offsets[r+1]
		sum, n := t.sumLogRatio(b.Mask, lo, hi)
		s := math.Exp(sum / float64(n))
		for i := lo; i < hi; i++ {
			if b.Mask[i] {
				t.Loss[i], t.Slope[i] = p.token(t, s, b.Advantage[i])
			}
		}
		if p.KL != NoKL {
			p.addKL(t, b, r, s)
		}
	}
	return nil
}

// addKL adds its KL to a row with the ratio s. Its log-probs have a gradient of s, too.
func (p LUSPO) addKL(t *Terms, b *Batch[float64], row int, s float64) {
	lo, hi := b.Offsets[row], b.Offsets[row+1]
	sum := 0.0
	for i := lo; i < hi; i++ {
		if !b.Mask[i] {
			continue
		}
		if b.Weight != nil {
			t.times(i, b.Weight[i])
		}
		kl, slope, _ := p.KL.Of(b.LogProb[i], b.Ref[i]) // the name has been checked
		t.Loss[i] += p.KLCoef * s * kl
		t.Slope[i] += p.KLCoef * s * slope
		sum += s * kl
	}
	for i := lo; i < hi; i++ {
		t.Slope[i] += p.KLCoef * sum / float64(countTrue(b.Mask[lo:hi])) // not read where the mask is unset
	}
	t.own.RefKL += sum
}

// token returns ℓ and its derivative by ln s.
func (p LUSPO) token(t *Terms, s, adv float64) (float64, float64) {
	first, pass := s, s
	if p.Delta > 0 && s > p.Delta {
		first, pass = p.Delta, 0
	}
	inside, in := clamp(s, 1-p.Low, 1+p.High)
	switch {
	case first < 1-p.Low && adv < 0, first > 1+p.High && adv > 0:
		t.Clipped++
	}
	return maxOf(-adv*first, -adv*pass, -adv*inside, -adv*in*s)
}
