package advantage

import (
	"fmt"
	"unsafe"
)

// checkShared returns an error if a Result shares memory with the batch, or its advantages
// with its returns: an estimator would overwrite its input. The slices of the result must
// have their final length, except spareMask, which may get one entry per token.
func checkShared(dst *Result, spareMask []bool, b *Batch) error {
	for i, out := range [...][]float32{dst.Advantages, dst.Returns} {
		shared := false
		for _, in := range [...][]float32{b.Rewards, b.Values, b.Baselines, b.LogProbs, b.SumPiSquared, b.Weights} {
			shared = shared || overlap(out, in)
		}
		for _, of := range b.Components {
			shared = shared || overlap(out, of)
		}
		if shared {
			return fmt.Errorf("result: %s: same memory as a column of the batch: %w", [...]string{"advantages", "returns"}[i],
				ErrOverlap)
		}
	}
	spareMask = spareMask[:min(cap(spareMask), b.Tokens())]
	for _, in := range [...][]bool{b.Attention, b.Loss, b.Response, b.GAE, b.TurnEnd} {
		if overlap(spareMask, in) {
			return fmt.Errorf("result: value mask: same memory as a mask of the batch: %w", ErrOverlap)
		}
	}
	if overlap(dst.Advantages, dst.Returns) {
		return fmt.Errorf("result: advantages: same memory as returns: %w", ErrOverlap)
	}
	return nil
}

// overlap reports whether two slices have an element in common.
func overlap[E any](a, b []E) bool {
	at := func(s []E, i int) uintptr { return uintptr(unsafe.Pointer(&s[i])) }
	return len(a) > 0 && len(b) > 0 && at(a, 0) <= at(b, len(b)-1) && at(b, 0) <= at(a, len(a)-1)
}
