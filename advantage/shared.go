package advantage

import (
	"fmt"
	"unsafe"
)

// checkShared returns an error if a Result shares memory with the batch, or its advantages
// with its returns: an estimator would overwrite its input. The slices of the result must
// have their final length, except spareMask, which may get one entry per token.
func checkShared(dst *Result, spareMask []bool, b *Batch) error {
	spareMask = spareMask[:min(cap(spareMask), b.Tokens())]
	for _, out := range [...]struct {
		name    string
		numbers []float32
	}{{"advantages", dst.Advantages}, {"returns", dst.Returns}} {
		for _, in := range [...]struct {
			name    string
			numbers []float32
		}{
			{"rewards", b.Rewards}, {"values", b.Values}, {"baselines", b.Baselines}, {"log_probs", b.LogProbs},
			{"sum_pi_squared", b.SumPiSquared}, {"weights", b.Weights},
		} {
			if overlap(out.numbers, in.numbers) {
				return errOverlap(out.name, in.name)
			}
		}
		for _, of := range b.Components {
			if overlap(out.numbers, of) {
				return errOverlap(out.name, "components")
			}
		}
	}
	for _, in := range [...]struct {
		name string
		mask []bool
	}{{"attention", b.Attention}, {"loss", b.Loss}, {"response", b.Response}, {"gae", b.GAE}, {"turn_end", b.TurnEnd}} {
		if overlap(spareMask, in.mask) {
			return errOverlap("value mask", in.name)
		}
	}
	if overlap(dst.Advantages, dst.Returns) {
		return errOverlap("advantages", "returns")
	}
	return nil
}

func errOverlap(out, other string) error {
	return fmt.Errorf("result: %s: same memory as %s: %w", out, other, ErrOverlap)
}

// overlap reports whether two slices have an element in common.
func overlap[E any](a, b []E) bool {
	at := func(s []E, i int) uintptr { return uintptr(unsafe.Pointer(&s[i])) }
	return len(a) > 0 && len(b) > 0 && at(a, 0) <= at(b, len(b)-1) && at(b, 0) <= at(a, len(a)-1)
}
