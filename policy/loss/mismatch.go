package loss

import (
	"fmt"
	"math"

	"vagen/internal/floats"
	"vagen/internal/nearest"
)

// Level is the unit of an importance weight.
type Level string

// The levels of importance weights.
const (
	NoWeight      Level = ""         // no weights
	TokenLevel    Level = "token"    // one per token: biased, low variance
	SequenceLevel Level = "sequence" // one per row, the product of its tokens' ratios: unbiased, high variance
)

// Correction corrects for the difference between the policy that wrote the tokens and the
// same policy as computed by the trainer: other kernels, other precision, weights some
// steps old. With the ratio of a token,
//
//	ρ = exp(trainer − rollout log-prob),   log-ratio clamped to ±20
//
// it truncates importance weights, w = min(ρ, Threshold) per token or
// w = min(Π ρ, Threshold) per row, and removes tokens or rows from the mask whose
// divergence exceeds the bounds of Reject. Weights carry no gradient.
//
// With Lower above 0 a weight is unchanged within [Lower, Threshold] and set to 0
// outside: tokens on which sampling and training disagree too much then count in
// averages but have no gradient.
//
// Truncated importance sampling: Ionides, 2008, and for this use Yao et al.,
// "Your efficient RL framework secretly brings you off-policy RL training",
// 2025. Dropping: IcePop, Zhao et al., "Small leak can sink a great ship", 2025.
// Names and definitions follow verl's rollout correction.
type Correction struct {
	Weight    Level   // unit of importance weights; NoWeight for none
	Threshold float64 // larger weights are truncated to it, > 0; ignored without weights
	Lower     float64 // in (0, Threshold]: weights outside [Lower, Threshold] become 0; 0: larger weights are truncated
	// Normalize divides the truncated weights by their mean over tokens (over
	// rows at sequence level), so that they don't change the step size.
	Normalize bool
	Reject    []Rejection // a token must pass all of them
}

// DefaultCorrection truncates token weights at 2.
func DefaultCorrection() Correction { return Correction{Weight: TokenLevel, Threshold: 2} }

// CorrectionBatch holds both log-probs of the same tokens, with the layout of [Batch].
type CorrectionBatch[T Float] struct {
	Offsets []int  // where rows start and end, as in Batch
	Mask    []bool // tokens that count
	Trainer []T    // log-prob by the trainer's forward pass
	Rollout []T    // log-prob recorded when the token was sampled
}

// Corrected is the result of a Correction. Its memory is reused between calls.
type Corrected struct {
	Weight  []float32         // per token, 0 where the input mask is unset; nil without weights. Put it into Batch.Weight
	Mask    []bool            // the input mask without rejected tokens. Put it into Batch.Mask
	Metrics CorrectionMetrics // of this batch

	logRatio []float64
	rowSum   []float64
}

// Correct computes weights, mask and metrics. A batch without counted tokens
// gets zero weights and zero metrics.
func Correct[T Float](dst *Corrected, c Correction, b *CorrectionBatch[T]) error {
	if err := c.check(); err != nil {
		return err
	}
	if dst == nil || b == nil {
		return setting("result or batch is nil, must be set")
	}
	if err := checkLayout(b.Offsets, b.Mask, len(b.Trainer)); err != nil {
		return err
	}
	if err := checkColumn("trainer log-prob", b.Trainer, b.Offsets, b.Mask, false); err != nil {
		return err
	}
	if err := checkColumn("rollout log-prob", b.Rollout, b.Offsets, b.Mask, false); err != nil {
		return err
	}
	n := len(b.Mask)
	dst.logRatio = zeros(dst.logRatio, n)
	for i, m := range b.Mask {
		if !m {
			continue
		}
		dst.logRatio[i] = float64(b.Trainer[i]) - float64(b.Rollout[i])
		if !floats.Finite(dst.logRatio[i]) {
			return notFinite("trainer - rollout log-prob", b.Offsets, i, dst.logRatio[i])
		}
	}
	dst.rowSum = zeros(dst.rowSum, len(b.Offsets)-1)
	for r := range dst.rowSum {
		for i := b.Offsets[r]; i < b.Offsets[r+1]; i++ {
			dst.rowSum[r] += dst.logRatio[i] // 0 where the mask is unset
		}
	}
	dst.Metrics = CorrectionMetrics{}
	dst.Metrics.divergence(dst, b.Offsets, b.Mask)
	logPerplexity(&dst.Metrics, b)
	dst.setWeights(c, b.Offsets, b.Mask)
	dst.reject(c.Reject, b.Offsets, b.Mask)
	return nil
}

// setWeights sets Weight.
func (d *Corrected) setWeights(c Correction, offsets []int, mask []bool) {
	if c.Weight == NoWeight {
		d.Weight = nil
		return
	}
	d.Weight = grow(d.Weight, len(mask))
	clear(d.Weight)
	var w weightStats
	for r, rowSum := range d.rowSum {
		lo, hi := offsets[r], offsets[r+1]
		n := countTrue(mask[lo:hi])
		if n > 0 && c.Weight == SequenceLevel {
			w.addUnit(rowSum, c)
		}
		for i := lo; i < hi; i++ {
			if !mask[i] {
				continue
			}
			lr := rowSum
			if c.Weight == TokenLevel {
				lr = d.logRatio[i]
				w.addUnit(lr, c)
			}
			d.Weight[i] = float32(c.bound(math.Exp(clampedRatio(lr))))
		}
	}
	norm := w.metrics(&d.Metrics)
	if !c.Normalize || norm == 0 {
		return
	}
	d.Metrics.NormFactor = norm
	for i := range d.Weight {
		d.Weight[i] = float32(float64(d.Weight[i]) / norm)
	}
}

// bound truncates a weight to Threshold, or sets it to 0 outside [Lower, Threshold].
func (c Correction) bound(w float64) float64 {
	if c.Lower > 0 && !(w >= c.Lower && w <= c.Threshold) {
		return 0
	}
	return min(w, c.Threshold)
}

// low is the limit below which weights count as low: Lower, or 1/Threshold without it.
func (c Correction) low() float64 {
	if c.Lower > 0 {
		return c.Lower
	}
	return 1 / c.Threshold
}

func (c Correction) check() error {
	switch c.Weight {
	case NoWeight:
	case TokenLevel, SequenceLevel:
		if !(c.Threshold > 0) || math.IsInf(c.Threshold, 0) {
			return setting("correction: Threshold = %v, want more than 0", c.Threshold)
		}
		if !(c.Lower >= 0 && c.Lower <= c.Threshold) {
			return setting("correction: Lower = %v, want 0 or more, at most Threshold = %v", c.Lower, c.Threshold)
		}
	default:
		levels := []string{string(TokenLevel), string(SequenceLevel)}
		return fmt.Errorf("loss: correction: weight %q: %w%s (known: token, sequence)", string(c.Weight), ErrUnknown,
			nearest.Hint(string(c.Weight), levels))
	}
	for _, r := range c.Reject {
		if err := r.check(); err != nil {
			return err
		}
	}
	return nil
}
