package loss

import (
	"iter"
	"math"
)

// CorrectionMetrics describe the difference between rollout and trainer. Means are over
// counted tokens unless a row is named; everything is 0 if there is none.
type CorrectionMetrics struct {
	Tokens, Rows int // counted tokens, rows with any

	// Of the weights before truncation or dropping, per token or per row as the level says.
	// All 0 without weights.
	WeightMean, WeightMax, WeightMin float64
	Truncated                        float64 // share above the threshold
	Low                              float64 // share below Lower, or 1/threshold without it
	// EffectiveSize is (Σ w)²/(n·Σ w²) of the bounded weights, in (0, 1]; 0 when
	// all were dropped.
	EffectiveSize float64
	NormFactor    float64 // divisor of Normalize; 0 without it

	Rejected     float64 // share of tokens removed from the mask
	RejectedRows float64 // share of rows that lost a token

	KL       float64 // mean of rollout − trainer log-prob: estimates KL(rollout‖trainer)
	K3       float64 // mean of ρ − 1 − ln ρ: same, never negative
	Chi2     float64 // mean of ρ² − 1 over tokens
	Chi2Rows float64 // mean of (Π ρ)² − 1 over rows
	LogRatio float64 // largest |ln ρ| of a token
	// Log perplexity: mean over rows of the negative mean log-prob.
	TrainerLogPPL, RolloutLogPPL float64
}

// All yields the metrics in a fixed order.
func (m CorrectionMetrics) All() iter.Seq2[string, float64] {
	return inOrder([]named{
		{"rollout_corr/rollout_is_mean", m.WeightMean},
		{"rollout_corr/rollout_is_max", m.WeightMax},
		{"rollout_corr/rollout_is_min", m.WeightMin},
		{"rollout_corr/rollout_is_ratio_fraction_high", m.Truncated},
		{"rollout_corr/rollout_is_ratio_fraction_low", m.Low},
		{"rollout_corr/rollout_is_eff_sample_size", m.EffectiveSize},
		{"rollout_corr/rollout_is_batch_norm_factor", m.NormFactor},
		{"rollout_corr/rollout_rs_masked_fraction", m.Rejected},
		{"rollout_corr/rollout_rs_seq_masked_fraction", m.RejectedRows},
		{"rollout_corr/kl", m.KL},
		{"rollout_corr/k3_kl", m.K3},
		{"rollout_corr/chi2_token", m.Chi2},
		{"rollout_corr/chi2_seq", m.Chi2Rows},
		{"rollout_corr/log_ratio_abs_max", m.LogRatio},
		{"rollout_corr/training_log_ppl", m.TrainerLogPPL},
		{"rollout_corr/rollout_log_ppl", m.RolloutLogPPL},
	})
}

// divergence computes the metrics that need no weights.
func (m *CorrectionMetrics) divergence(d *Corrected, offsets []int, mask []bool) {
	m.Tokens, m.Rows = count(offsets, mask)
	if m.Tokens == 0 {
		return
	}
	for _, lr := range d.logRatio { // 0 where the mask is unset, as are sums of rows without counted tokens
		c := clampedRatio(lr)
		m.KL -= lr
		m.K3 += math.Expm1(c) - c
		m.Chi2 += math.Expm1(2 * c)
		m.LogRatio = max(m.LogRatio, math.Abs(lr))
	}
	n := float64(m.Tokens)
	m.KL, m.K3, m.Chi2 = m.KL/n, m.K3/n, m.Chi2/n
	for _, sum := range d.rowSum {
		m.Chi2Rows += math.Expm1(2 * clampedRatio(sum))
	}
	m.Chi2Rows /= float64(m.Rows)
}

func logPerplexity[T Float](m *CorrectionMetrics, b *CorrectionBatch[T]) {
	for r := range len(b.Offsets) - 1 {
		var trainer, rollout float64
		n := 0
		for i := b.Offsets[r]; i < b.Offsets[r+1]; i++ {
			if b.Mask[i] {
				trainer -= float64(b.Trainer[i])
				rollout -= float64(b.Rollout[i])
				n++
			}
		}
		if n > 0 {
			m.TrainerLogPPL += trainer / float64(n) / float64(m.Rows)
			m.RolloutLogPPL += rollout / float64(n) / float64(m.Rows)
		}
	}
}

// weightStats collects weights, one per token or one per row.
type weightStats struct {
	n, above, below int
	sum, top, low   float64 // before truncation
	cut, cut2       float64 // after truncation
}

func (s *weightStats) addUnit(logRatio float64, c Correction) {
	w := math.Exp(clampedRatio(logRatio))
	if s.n == 0 {
		s.low = w
	}
	s.n++
	s.sum += w
	s.top, s.low = max(s.top, w), min(s.low, w)
	if w > c.Threshold {
		s.above++
	}
	if w < c.low() {
		s.below++
	}
	w = c.bound(w)
	s.cut += w
	s.cut2 += w * w
}

// metrics writes the statistics and returns the mean of the truncated weights.
func (s *weightStats) metrics(m *CorrectionMetrics) (norm float64) {
	if s.n == 0 {
		return 0
	}
	n := float64(s.n)
	m.WeightMean, m.WeightMax, m.WeightMin = s.sum/n, s.top, s.low
	m.Truncated, m.Low = float64(s.above)/n, float64(s.below)/n
	if s.cut2 > 0 { // thresholds below 1e-154 underflow
		m.EffectiveSize = s.cut * s.cut / (n * s.cut2)
	}
	return s.cut / n
}
