package loss

import "math"

// Value is the critic's loss. With v the prediction, V the one before this
// update and R the return,
//
//	ℓ = ½·max((v − R)², (clip(v, V ± Clip) − R)²)
//
// as in Schulman's PPO code.
type Value struct {
	Clip float64 // largest distance of v from V, ≥ 0; +Inf disables the clip and needs no V
}

// DefaultValue clips at 0.5.
func DefaultValue() Value { return Value{Clip: 0.5} }

// Of returns the loss of one prediction, with its derivative, and whether the clipped side is the larger one. old
// is not read if Clip is +Inf.
func (v Value) Of(pred, old, ret float64) (l, slope float64, clipped bool) {
	held, pass := pred, 1.0
	if !math.IsInf(v.Clip, 1) {
		held, pass = clamp(pred, old-v.Clip, old+v.Clip)
	}
	free, bound := (pred-ret)*(pred-ret), (held-ret)*(held-ret)
	l, slope = maxOf(free, 2*(pred-ret), bound, 2*(held-ret)*pass)
	return l / 2, slope / 2, bound > free
}
