package loss

import (
	"fmt"
	"math"
	"strings"

	"vagen/internal/nearest"
)

// KL names an estimate of KL(π‖π_ref) from one sampled token, as a loss term.
// With d = log π − log π_ref of that token:
//
//	kl, k1            d                              unbiased value; may be negative, its gradient is that of log π
//	abs               |d|
//	mse, k2           d²/2                           gradient of the true divergence in expectation
//	low_var_kl, k3    clip(exp(−d) + d − 1, ±10)     unbiased value, never negative; limited as in verl
//	k3_unclamped      exp(−d) + d − 1                the same without the limit, as in TRL and slime
//
// A trailing "+" keeps the value and uses the gradient of k2, as in "k3+". The empty KL
// means no term.
//
// J. Schulman, "Approximating KL divergence", 2020.
type KL string

// The divergences.
const (
	NoKL  KL = ""
	K1    KL = "kl"
	AbsKL KL = "abs"
	K2    KL = "mse"
	K3    KL = "low_var_kl"
	// K3Unclamped is Schulman's k3 itself.
	K3Unclamped KL = "k3_unclamped"
)

var klNames = []string{"kl", "k1", "abs", "mse", "k2", "low_var_kl", "k3", "k3_unclamped"}

// Check returns ErrUnknown unless the name, with or without "+", is one of the
// above.
func (k KL) Check() error {
	if f, _ := k.parts(); f != nil || k == NoKL {
		return nil
	}
	note := ""
	if k == "full" {
		note = "; full needs the logits of both policies, not one log-prob each"
	}
	return fmt.Errorf("loss: kl %q: %w%s (known: %s%s)", string(k), ErrUnknown,
		nearest.Hint(string(k), klNames), strings.Join(klNames, ", "), note)
}

// klKinds maps names to value and derivative as functions of d.
var klKinds = map[string]func(d float64) (v, dv float64){
	"kl": linearKL, "k1": linearKL,
	"abs": func(d float64) (float64, float64) { return math.Abs(d), sign(d) },
	"mse": squareKL, "k2": squareKL,
	"low_var_kl": lowVarKL, "k3": lowVarKL, "k3_unclamped": thirdKL,
}

func linearKL(d float64) (v, dv float64) { return d, 1 }
func squareKL(d float64) (v, dv float64) { return d * d / 2, d }

func lowVarKL(d float64) (v, dv float64) {
	v, dv = thirdKL(d)
	v, pass := clamp(v, -10, 10)
	if pass == 0 {
		return v, 0 // also where exp(−d) overflows
	}
	return v, dv
}

func thirdKL(d float64) (v, dv float64) {
	e := math.Expm1(-d)
	return e + d, -e
}

// parts returns the function of a kind, nil for none, and whether the gradient is k2's instead of
// its own.
func (k KL) parts() (f func(d float64) (v, dv float64), straight bool) {
	base, straight := strings.CutSuffix(string(k), "+")
	return klKinds[base], straight
}

// Of returns the estimate and its derivative by logProb for one token.
func (k KL) Of(logProb, ref float64) (value, slope float64, err error) {
	f, straight := k.parts()
	if f == nil {
		return 0, 0, k.Check()
	}
	d := logProb - ref
	if value, slope = f(d); straight {
		slope = d
	}
	return value, slope, nil
}
