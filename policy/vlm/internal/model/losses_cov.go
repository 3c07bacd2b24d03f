package model

import (
	. "github.com/gomlx/gomlx/core/graph"
)

// clipCov is PPO's surrogate without the tokens that were drawn at random (PolicyInput.Chosen).
func clipCov(t *PolicyTerms, in PolicyInput) {
	l, d, _ := clipped(Exp(t.LogRatio), in)
	t.Loss, t.Slope = Where(in.Chosen, ZerosLike(l), l), Where(in.Chosen, ZerosLike(d), d)
	t.Clipped = in.Chosen
}

// klCov is the plain surrogate with a penalty at the tokens of largest
// covariance. The caller selects them, because that needs a sort, which is slow
// on an accelerator.
func klCov(t *PolicyTerms, in PolicyInput) {
	coef := Hyper(in.Hyper, CovCoef)
	plain := Neg(Mul(in.Advantage, Exp(t.LogRatio)))
	t.Loss = Add(plain, where(in.Chosen, Mul(coef, Abs(t.LogRatio))))
	t.Slope = Add(plain, where(in.Chosen, Mul(coef, Sign(t.LogRatio))))
}
