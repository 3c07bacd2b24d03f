package model

import (
	"math/bits"

	. "github.com/gomlx/gomlx/pkg/core/graph"
)

// covariance is (A − mean A)·(log π − mean log π), means over counted tokens.
func covariance(in PolicyInput) *Node {
	one := cast(in.Mask, in.LogProb.DType())
	n := Max(ReduceAllSum(one), num(one, 1))
	centred := func(x *Node) *Node { return Sub(x, Div(ReduceAllSum(where(in.Mask, x)), n)) }
	return Mul(centred(in.Advantage), centred(in.LogProb))
}

// clipCov is PPO's surrogate without the tokens that have been drawn.
func clipCov(t *PolicyTerms, in PolicyInput) {
	l, d, _ := clipped(Exp(t.LogRatio), in)
	t.Loss, t.Slope = Where(in.Dropped, ZerosLike(l), l), Where(in.Dropped, ZerosLike(d), d)
	t.Clipped = in.Dropped
}

// klCov is the plain surrogate with a penalty at the tokens of largest covariance.
func klCov(t *PolicyTerms, in PolicyInput) {
	chosen := largest(covariance(in), in.Mask, Hyper(in.Hyper, CovTokens))
	coef := Hyper(in.Hyper, CovCoef)
	plain := Neg(Mul(in.Advantage, Exp(t.LogRatio)))
	t.Loss = Add(plain, where(chosen, Mul(coef, Abs(t.LogRatio))))
	t.Slope = Add(plain, where(chosen, Mul(coef, Sign(t.LogRatio))))
}

// halvings narrow an interval of scores until it holds equal ones alone: to
// 2⁻⁸⁰ of their spread, where float64 has 53 bits of each.
const halvings = 80

// largest marks the k largest scores under the mask; of equal ones the first
// count. It needs no sorting: a threshold between the scores is found by
// halving, and among the scores on it an index in the same way.
func largest(score, mask, k *Node) *Node {
	count := func(set *Node) *Node { return ReduceAllSum(cast(LogicalAnd(mask, set), score.DType())) }
	const huge = 1e300
	low := ReduceAllMin(Where(mask, score, MulScalar(OnesLike(score), huge)))
	top := ReduceAllMax(Where(mask, score, MulScalar(OnesLike(score), -huge)))
	enough := func(cut *Node) *Node { return GreaterOrEqual(count(GreaterOrEqual(score, cut)), k) }
	// k scores are at least lo, fewer are at least hi.
	lo, hi := halve(low, top, halvings, enough)
	atTop := enough(top) // as when one is wanted
	lo, hi = Where(atTop, top, lo), Where(atTop, num(score, huge), hi)
	above := GreaterOrEqual(score, hi)
	level := LogicalAnd(GreaterOrEqual(score, lo), LogicalNot(above))

	n := rows(score)
	index := Iota(score.Graph(), score.Shape(), 0)
	missing := Sub(k, count(above))
	last, _ := halve(num(score, float64(n)), num(score, -1), bits.Len(uint(n))+2, func(cut *Node) *Node {
		return GreaterOrEqual(count(LogicalAnd(level, LessOrEqual(index, cut))), missing)
	})
	return LogicalAnd(mask, LogicalOr(above, LogicalAnd(level, LessOrEqual(index, last))))
}

// halve narrows the interval between yes, where ok holds, and no, where it does
// not.
func halve(yes, no *Node, times int, ok func(x *Node) *Node) (y, n *Node) {
	for range times {
		mid := MulScalar(Add(yes, no), 0.5)
		good := ok(mid)
		yes, no = Where(good, mid, yes), Where(good, no, mid)
	}
	return yes, no
}
