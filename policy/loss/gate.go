package loss

import (
	"math"

	"vagen/internal/floats"
)

// CISPO clips the importance weight instead of the update, so that no token
// loses its gradient. With ρ = exp(new − old log-prob, clamped to ±20) and sg
// for "no gradient",
//
//	ℓ = −sg(clip(ρ, 1−Low, 1+High))·A·log π
//
// MiniMax-M1, arXiv:2506.13585, eq. 4 and 5; the paper uses no lower bound
// (Low = 1) and a wide upper one.
type CISPO struct {
	Low, High float64 // how far the weight may move below and above 1; Low in [0, 1], High ≥ 0
}

// Local reports that tokens are independent: see [Local].
func (CISPO) Local() bool { return true }

// Terms implements [Policy].
func (p CISPO) Terms(t *Terms, b *Batch[float64]) error {
	if err := ready(t, b, checkClip("cispo", p.Low, p.High)); err != nil {
		return err
	}
	for i, m := range b.Mask {
		if !m {
			continue
		}
		t.LogRatio[i] = clampedRatio(t.LogRatio[i])
		w, pass := clamp(math.Exp(t.LogRatio[i]), 1-p.Low, 1+p.High)
		if pass == 0 {
			t.Clipped++
		}
		t.Loss[i] = -w * b.Advantage[i] * b.LogProb[i]
		t.Slope[i] = -w * b.Advantage[i]
	}
	return nil
}

// SAPO replaces the hard clip by a soft gate. With ρ = exp(new − old log-prob,
// clamped to ±20), τ = TauPos where A > 0 and TauNeg elsewhere, σ the logistic
// function,
//
//	ℓ = −A·(4/τ)·σ(τ(ρ − 1))
//
// whose slope at ρ = 1 is that of the plain policy gradient and decreases on both
// sides. Aggregation is always seq-mean-token-mean.
//
// Gao et al., arXiv:2511.20347; there TauPos 1.0 and TauNeg 1.05, so that
// the slope decreases faster for negative advantages.
type SAPO struct {
	TauPos, TauNeg float64 // sharpness of the gate, > 0
}

// DefaultSAPO holds the published temperatures.
func DefaultSAPO() SAPO { return SAPO{TauPos: 1, TauNeg: 1.05} }

func (p SAPO) check() error {
	for _, v := range [...]struct {
		name string
		tau  float64
	}{{"TauPos", p.TauPos}, {"TauNeg", p.TauNeg}} {
		if !(v.tau > 0) || math.IsInf(v.tau, 0) {
			return setting("sapo: %s = %v, want more than 0", v.name, v.tau)
		}
	}
	return nil
}

// Local reports that tokens are independent: see [Local].
func (SAPO) Local() bool { return true }

// Terms implements [Policy].
func (p SAPO) Terms(t *Terms, b *Batch[float64]) error {
	if err := ready(t, b, p.check()); err != nil {
		return err
	}
	t.Mode = SeqMeanTokenMean
	for i, m := range b.Mask {
		if !m {
			continue
		}
		lr, pass := clamp(t.LogRatio[i], -maxLogRatio, maxLogRatio)
		t.LogRatio[i] = lr
		adv, tau := b.Advantage[i], p.TauNeg
		if adv > 0 {
			tau = p.TauPos
		}
		ratio := math.Exp(lr)
		gate := 1 / (1 + math.Exp(-tau*(ratio-1)))
		t.Loss[i] = -adv * gate * 4 / tau
		t.Slope[i] = -adv * 4 * gate * (1 - gate) * ratio * pass
	}
	return nil
}

// GMPO maximises the geometric mean of a row's clipped token ratios, which a single
// outlier cannot dominate. With δ = new − old log-prob and Ā the mean
// advantage of the row's n counted tokens,
//
//	δ' = sgn(A)·min(sgn(A)·δ, sgn(A)·clip(δ, −Low, High))
//	ℓ  = −Ā·exp(Σ δ' / n) of the row
//
// Note that Low and High bound the LOG-ratio. Rows are averaged (rows without
// a counted token are skipped); rollout weights enter by their geometric mean
// over the row, in which a weight below 1e-10 counts as that: with 0 a single
// token, outside the bounds of [Correction], would remove its row. Zhao et al.,
// arXiv:2507.20673, eq. 6; the paper uses 0.4 for both and one advantage per
// row. verl, whose number 1e-10 is, calls this geo_mean.
type GMPO struct {
	Low, High float64 // how far the log-ratio may move below and above 0, ≥ 0
}

func (p GMPO) check() error {
	if !(p.Low >= 0) || !(p.High >= 0) || !floats.Finite(p.Low+p.High) {
		return setting("gmpo: Low, High = %v, %v, want 0 or more", p.Low, p.High)
	}
	return nil
}

// Terms implements [Policy].
func (p GMPO) Terms(t *Terms, b *Batch[float64]) error {
	if err := ready(t, b, p.check()); err != nil {
		return err
	}
	if err := checkPositiveWeights(b); err != nil {
		return err
	}
	t.Mode, t.Weighted = SeqMeanTokenMean, true
	for r := range b.Rows() {
		p.row(t, b, b.Offsets[r], b.Offsets[r+1])
	}
	return nil
}

// row writes the row's loss to each of its n tokens. Seq-mean-token-mean divides
// by n, so slopes are n times the derivative of the row's loss.
func (p GMPO) row(t *Terms, b *Batch[float64], lo, hi int) {
	var sum, adv, logWeight float64
	n := 0
	for i := lo; i < hi; i++ {
		if !b.Mask[i] {
			continue
		}
		n++
		adv += b.Advantage[i]
		if b.Weight != nil {
			logWeight += math.Log(max(b.Weight[i], 1e-10))
		}
		d, pass := p.token(t, t.LogRatio[i], b.Advantage[i])
		sum += d
		t.Slope[i] = pass
	}
	loss := -adv / float64(n) * math.Exp(sum/float64(n)) * math.Exp(logWeight/float64(n))
	for i := lo; i < hi; i++ {
		if b.Mask[i] {
			t.Loss[i] = loss
			t.Slope[i] *= loss
		}
	}
}

// token returns δ' and its derivative by δ.
func (p GMPO) token(t *Terms, d, adv float64) (v, pass float64) {
	inside, in := clamp(d, -p.Low, p.High)
	switch {
	case adv > 0:
		if in == 0 {
			t.Clipped++
		}
		return minOf(d, 1, inside, in)
	case adv < 0:
		if in == 0 {
			t.ClippedLower++
		}
		return maxOf(d, 1, inside, in)
	}
	return 0, 0
}

func checkPositiveWeights(b *Batch[float64]) error {
	for i, w := range b.Weight {
		if b.Mask[i] && w < 0 {
			row, pos := locate(b.Offsets, i)
			return setting("weight: row %d, position %d: %v, want 0 or more for a geometric mean", row, pos, w)
		}
	}
	return nil
}
