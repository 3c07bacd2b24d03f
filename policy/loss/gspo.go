package loss

import "math"

// GSPO treats the whole row as one action, with the geometric mean of its token ratios:
//
//	ln s = Σ m·(new − old) / Σ m over the row, at most 10
//	ℓ    = max(−A·s, −A·clip(s, 1−Low, 1+High)) at every token
//
// The gradient flows per token: s has the value of the row and the derivative
// of the token's own log-prob, so that advantages may differ inside a row
// (GSPO-token). Aggregation is always seq-mean-token-mean.
//
// Zheng et al., arXiv:2507.18071, eq. 5 and 13; the paper clips at 3e-4 and
// 4e-4. In a row of several turns this is one ratio for all of them; see
// [TurnGSPO].
type GSPO struct {
	Low, High float64 // how far s may move below and above 1; Low in [0, 1], High ≥ 0
}

// Terms implements [Policy].
func (p GSPO) Terms(t *Terms, b *Batch[float64]) error {
	if err := ready(t, b, checkClip("gspo", p.Low, p.High)); err != nil {
		return err
	}
	t.Mode = SeqMeanTokenMean
	for r := range b.Rows() {
		lo, hi := b.Offsets[r], b.Offsets[r+1]
		sum, n := t.sumLogRatio(b.Mask, lo, hi)
		t.jointAction(b, lo, hi, sum/float64(n), p.Low, p.High, 1)
	}
	return nil
}

// sumLogRatio adds up the log-ratios of the counted tokens in [lo, hi).
func (t *Terms) sumLogRatio(mask []bool, lo, hi int) (sum float64, n int) {
	for i := lo; i < hi; i++ {
		if mask[i] {
			sum += t.LogRatio[i]
			n++
		}
	}
	return sum, n
}

// jointAction writes the clipped surrogate of tokens [lo, hi) that share one
// log-ratio. scale multiplies each token's loss.
func (t *Terms) jointAction(b *Batch[float64], lo, hi int, logRatio, low, high, scale float64) {
	pass := 1.0
	if logRatio > maxLogTurn {
		logRatio, pass = maxLogTurn, 0
	}
	ratio := math.Exp(logRatio)
	for i := lo; i < hi; i++ {
		if !b.Mask[i] {
			continue
		}
		l, d, won := clipped(ratio, b.Advantage[i], low, high)
		if won {
			t.Clipped++
		}
		t.Loss[i], t.Slope[i] = scale*l, scale*d*pass
	}
}
