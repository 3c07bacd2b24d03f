package loss

import (
	"iter"
	"math"
)

// Value is the critic's loss. With v the prediction, V the one before this
// update and R the return,
//
//	ℓ = ½·max((v − R)², (clip(v, V ± Clip) − R)²)
//
// Schulman's PPO code; the papers on VAGEN write the plain (v − R)², which is
// Clip = +Inf with Plain set.
type Value struct {
	Clip  float64 // largest distance of v from V, ≥ 0; +Inf disables the clip and needs no V
	Plain bool    // omit the factor ½
}

// DefaultValue clips at 0.5.
func DefaultValue() Value { return Value{Clip: 0.5} }

// ValueBatch is one micro-batch for the critic, laid out as [Batch] is.
type ValueBatch[T Float] struct {
	Offsets []int  // where rows start and end
	Mask    []bool // tokens that count: the loss mask, or the turn ends
	// ValueMask, if given, restricts Mask to the positions that have a return. Turn-wise
	// estimators give other positions no return.
	ValueMask []bool
	Value     []T // v, at the state before each token
	OldValue  []T // V
	Return    []T // R
}

// ValueMetrics describe the critic on this batch. Means are over counted
// tokens; everything is 0 when there is none.
type ValueMetrics struct {
	Tokens       int     // counted
	ClipFraction float64 // tokens whose loss is the clipped one
	ValueMean    float64 // mean of v
	ReturnMean   float64 // mean of R
	AbsError     float64 // mean of |v − R|
}

// All yields the metrics in a fixed order.
func (m ValueMetrics) All() iter.Seq2[string, float64] {
	return inOrder([]named{
		{"critic/vf_clipfrac", m.ClipFraction},
		{"critic/vpred_mean", m.ValueMean},
		{"critic/return_mean", m.ReturnMean},
		{"critic/abs_error", m.AbsError},
		{"critic/loss_tokens", float64(m.Tokens)},
	})
}

// ValueResult is the critic's loss with its gradient by the predictions. Its fields are
// those of [Result], and its memory is reused likewise.
type ValueResult struct {
	Term, Loss float64      // before and after the factor of Aggregation.Norm
	Grad       []float64    // ∂Loss/∂v
	Empty      bool         // no token counted; everything is 0
	Metrics    ValueMetrics // of the tokens that count

	inner Result
	mask  []bool
}

// EvalValue evaluates the critic's loss. Tokens count where both masks are set.
func EvalValue[T Float](dst *ValueResult, v Value, a Aggregation, b *ValueBatch[T]) error {
	mask, err := b.check(dst, v)
	if err != nil {
		return err
	}
	t := &dst.inner.terms
	n := len(b.Value)
	t.Loss, t.Slope = zeros(t.Loss, n), zeros(t.Slope, n)
	m := ValueMetrics{}
	for i, counts := range mask {
		if !counts {
			continue
		}
		pred, ret := float64(b.Value[i]), float64(b.Return[i])
		old := 0.0
		if b.OldValue != nil {
			old = float64(b.OldValue[i])
		}
		var clipped bool
		t.Loss[i], t.Slope[i], clipped = v.Of(pred, old, ret)
		m.Tokens++
		if clipped {
			m.ClipFraction++
		}
		m.ValueMean += pred
		m.ReturnMean += ret
		m.AbsError += math.Abs(pred - ret)
	}
	if err := dst.inner.collect(a, b.Offsets, mask, t.Loss, t.Slope); err != nil {
		return err
	}
	if c := float64(m.Tokens); c > 0 {
		m.ClipFraction, m.ValueMean, m.ReturnMean, m.AbsError = m.ClipFraction/c, m.ValueMean/c, m.ReturnMean/c, m.AbsError/c
	}
	r := &dst.inner
	dst.Term, dst.Loss, dst.Grad, dst.Empty, dst.Metrics = r.Term, r.Loss, r.Grad, r.Empty, m
	return nil
}

// Of returns the loss of one prediction, with its derivative, and whether the clipped side is the larger one. old
// is not read if Clip is +Inf.
func (v Value) Of(pred, old, ret float64) (l, slope float64, clipped bool) {
	held, pass := pred, 1.0
	if !math.IsInf(v.Clip, 1) {
		held, pass = clamp(pred, old-v.Clip, old+v.Clip)
	}
	free, bound := (pred-ret)*(pred-ret), (held-ret)*(held-ret)
	l, slope = maxOf(free, 2*(pred-ret), bound, 2*(held-ret)*pass)
	if !v.Plain {
		l, slope = l/2, slope/2
	}
	return l, slope, bound > free
}

// check returns the mask of counted tokens.
func (b *ValueBatch[T]) check(dst *ValueResult, v Value) ([]bool, error) {
	if !(v.Clip >= 0) {
		return nil, setting("value: Clip = %v, want 0 or more, +Inf for none", v.Clip)
	}
	if err := checkLayout(b.Offsets, b.Mask, len(b.Value)); err != nil {
		return nil, err
	}
	mask := b.Mask
	if b.ValueMask != nil {
		if err := checkLayout(b.Offsets, b.ValueMask, len(b.Value)); err != nil {
			return nil, err
		}
		dst.mask = grow(dst.mask, len(mask))
		for i, m := range mask {
			dst.mask[i] = m && b.ValueMask[i]
		}
		mask = dst.mask
	}
	if err := checkColumn("value", b.Value, b.Offsets, mask, false); err != nil {
		return nil, err
	}
	if err := checkColumn("old_value", b.OldValue, b.Offsets, mask, math.IsInf(v.Clip, 1)); err != nil {
		return nil, err
	}
	return mask, checkColumn("return", b.Return, b.Offsets, mask, false)
}
