package model

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"

	"vagen/policy/loss"
)

// LossKind names a policy loss. Package policy/loss is the reference for
// formulas, sources and use.
type LossKind string

// The policy losses.
const (
	PPO       LossKind = "ppo"
	CISPO     LossKind = "cispo"
	SAPO      LossKind = "sapo"
	Reinforce LossKind = "reinforce"

	GSPO     LossKind = "gspo"
	TurnGSPO LossKind = "turn_gspo"
	TurnPPO  LossKind = "turn_ppo"
	GMPO     LossKind = "gmpo"
	ClipCov  LossKind = "clip_cov"
	KLCov    LossKind = "kl_cov"

	// Custom is a policy loss without a graph, which is evaluated in plain Go.
	Custom LossKind = "custom"
)

// KernelOf returns the graph of a policy loss, with the settings that are its inputs; ok
// is false for a loss without a graph.
func KernelOf(p loss.Policy) (k PolicyLoss, hyper map[HyperParam]float64, ok bool) {
	clip := func(low, high float64) map[HyperParam]float64 {
		return map[HyperParam]float64{ClipLow: low, ClipHigh: high}
	}
	switch p := p.(type) {
	case loss.PPO:
		k, hyper = PolicyLoss{Kind: PPO, Clamp: p.Clamp}, clip(p.Low, p.High)
		hyper[ClipDual] = p.Dual
	case loss.CISPO:
		k, hyper = PolicyLoss{Kind: CISPO}, clip(p.Low, p.High)
	case loss.SAPO:
		k, hyper = PolicyLoss{Kind: SAPO}, map[HyperParam]float64{TauPos: p.TauPos, TauNeg: p.TauNeg}
	case loss.Reinforce:
		k = PolicyLoss{Kind: Reinforce}
	case loss.GSPO:
		k, hyper = PolicyLoss{Kind: GSPO}, clip(p.Low, p.High)
	case loss.TurnGSPO:
		k, hyper = PolicyLoss{Kind: TurnGSPO}, clip(p.Low, p.High)
	case loss.TurnPPO:
		k, hyper = PolicyLoss{Kind: TurnPPO}, clip(p.Low, p.High)
	case loss.GMPO:
		k, hyper = PolicyLoss{Kind: GMPO}, clip(p.Low, p.High)
	case loss.ClipCov:
		k, hyper = PolicyLoss{Kind: ClipCov}, clip(p.Low, p.High)
	case loss.KLCov:
		k, hyper = PolicyLoss{Kind: KLCov}, map[HyperParam]float64{CovCoef: p.Coef}
	default:
		return PolicyLoss{}, nil, false
	}
	return k, hyper, true
}

// Joint reports whether a token's loss depends on other tokens. The others can
// be computed wherever the token's log-prob is.
func (k LossKind) Joint() bool {
	switch k {
	case PPO, CISPO, SAPO, Reinforce:
		return false
	}
	return true
}

// ByRow reports whether the loss has one ratio per row.
func (k LossKind) ByRow() bool { return k == GSPO || k == GMPO }

// ByTurn reports whether the loss has one ratio per turn.
func (k LossKind) ByTurn() bool { return k == TurnGSPO || k == TurnPPO }

// PolicyLoss is a policy loss as a graph: for every token its loss and the
// slope, the derivative by the token's own log-prob, as package policy/loss
// defines them, including the points where they have no derivative. It computes in the type of its inputs.
//
// Settings that may change from step to step are inputs; the fields determine the graph.
type PolicyLoss struct {
	Kind  LossKind // "" is PPO
	Clamp bool     // PPO: bound the log-ratio
}

// PolicyInput is what a PolicyLoss reads. Vectors have one entry per token.
type PolicyInput struct {
	LogProb, Old, Advantage *Node
	Rollout                 *Node     // weights without gradient, or nil
	Hyper                   *Node     // [HyperParams]
	Mask                    *Node     // bool, tokens that count; joint losses alone
	Segments                *Segments // of counted tokens; losses by row or turn alone
	Chosen                  *Node     // bool, tokens that ClipCov drops or KLCov penalises
}

// PolicyTerms are the results, one entry per token. Entries of tokens that do not count
// are unspecified.
type PolicyTerms struct {
	Loss, Slope *Node // with rollout weights
	// Clipped are the tokens whose loss took the clipped branch, ClippedLow those
	// limited by the dual clip; bool, nil for none.
	Clipped, ClippedLow *Node
	LogRatio            *Node // as the loss used it
	Joint               *Node // log-ratio of the token's turn or row; nil without
}

// Terms builds the graph.
func (p PolicyLoss) Terms(in PolicyInput) PolicyTerms {
	t := PolicyTerms{LogRatio: Sub(in.LogProb, in.Old)}
	switch p.Kind {
	case PPO, "":
		p.ppo(&t, in)
	case CISPO:
		cispo(&t, in)
	case SAPO:
		sapo(&t, in)
	case Reinforce:
		t.Loss, t.Slope = Neg(Mul(in.Advantage, in.LogProb)), Neg(in.Advantage)
	case GSPO, TurnGSPO, TurnPPO:
		p.jointAction(&t, in)
	case GMPO:
		gmpo(&t, in)
		return t // has the rollout weights in it
	case ClipCov:
		clipCov(&t, in)
	case KLCov:
		klCov(&t, in)
	default:
		panic(fmt.Errorf("model: unknown policy loss %q", p.Kind))
	}
	if in.Rollout != nil {
		t.Loss, t.Slope = Mul(t.Loss, in.Rollout), Mul(t.Slope, in.Rollout)
	}
	return t
}

// Bounds of log-ratios, as in package policy/loss.
const (
	maxLogRatio = 20 // of a token
	maxLogJoint = 10 // of a row or turn
)

// num is a constant in the type of x.
func num(x *Node, v float64) *Node { return Scalar(x.Graph(), x.DType(), v) }

// clamp limits x to [low, high]; inside marks entries that were already in it.
func clamp(x, low, high *Node) (v, inside *Node) {
	return Min(Max(x, low), high), LogicalAnd(GreaterOrEqual(x, low), LessOrEqual(x, high))
}

// where is a at the tokens that are on, else 0.
func where(on, a *Node) *Node { return Where(on, a, ZerosLike(a)) }

// boundedRatio is exp of the clamped log-ratio; inside marks tokens whose log-ratio was not clamped.
func (t *PolicyTerms) boundedRatio() (ratio, inside *Node) {
	t.LogRatio, inside = clamp(t.LogRatio, num(t.LogRatio, -maxLogRatio), num(t.LogRatio, maxLogRatio))
	return Exp(t.LogRatio), inside
}

// clipped is max(−A·ρ, −A·clip(ρ)), its derivative by ln ρ, and where the
// clipped side is the larger one. On a tie the derivative is the mean of both sides'.
func clipped(ratio *Node, in PolicyInput) (l, d, won *Node) {
	free := Neg(Mul(in.Advantage, ratio))
	held, inside := clamp(ratio, OneMinus(Hyper(in.Hyper, ClipLow)), OnePlus(Hyper(in.Hyper, ClipHigh)))
	bound := Neg(Mul(in.Advantage, held))
	dBound := where(inside, free)
	won = GreaterThan(bound, free)
	tie := MulScalar(Add(free, dBound), 0.5)
	return Max(free, bound), Where(won, dBound, Where(GreaterThan(free, bound), free, tie)), won
}

func (p PolicyLoss) ppo(t *PolicyTerms, in PolicyInput) {
	ratio, inside := Exp(t.LogRatio), (*Node)(nil)
	if p.Clamp {
		ratio, inside = t.boundedRatio()
	}
	l, d, won := clipped(ratio, in)
	c, zero := Hyper(in.Hyper, ClipDual), num(ratio, 0)
	has := LogicalAnd(LessThan(in.Advantage, zero), BroadcastToShape(GreaterThan(c, zero), won.Shape()))
	most := Neg(Mul(in.Advantage, c))
	t.Clipped, t.ClippedLow = won, LogicalAnd(has, GreaterThan(l, most))
	d = Where(t.ClippedLow, ZerosLike(d), Where(LogicalAnd(has, Equal(l, most)), MulScalar(d, 0.5), d))
	t.Loss = Where(t.ClippedLow, most, l)
	if t.Slope = d; inside != nil {
		t.Slope = where(inside, d)
	}
}

func cispo(t *PolicyTerms, in PolicyInput) {
	ratio, _ := t.boundedRatio()
	w, inside := clamp(ratio, OneMinus(Hyper(in.Hyper, ClipLow)), OnePlus(Hyper(in.Hyper, ClipHigh)))
	t.Clipped = LogicalNot(inside)
	t.Slope = Neg(Mul(w, in.Advantage))
	t.Loss = Mul(t.Slope, in.LogProb)
}

func sapo(t *PolicyTerms, in PolicyInput) {
	ratio, inside := t.boundedRatio()
	positive := GreaterThan(in.Advantage, num(ratio, 0))
	tau := func(h HyperParam) *Node { return BroadcastToShape(Hyper(in.Hyper, h), ratio.Shape()) }
	sharp := Where(positive, tau(TauPos), tau(TauNeg))
	x := Mul(sharp, AddScalar(ratio, -1))
	size := MulScalar(Neg(in.Advantage), 4)
	t.Loss = Div(Mul(size, Sigmoid(x)), sharp)
	// 1 − σ(x) as σ(−x), which keeps its digits where it is small.
	t.Slope = where(inside, Mul(Mul(size, ratio), Mul(Sigmoid(x), Sigmoid(Neg(x)))))
}

// jointAction is the clipped surrogate of a row or turn that counts as one action.
func (p PolicyLoss) jointAction(t *PolicyTerms, in PolicyInput) {
	one := cast(in.Mask, t.LogRatio.DType())
	tokens := Max(in.Segments.sum(one), num(one, 1))
	t.Joint = in.Segments.sum(where(in.Mask, t.LogRatio))
	if p.Kind != TurnPPO {
		t.Joint = Div(t.Joint, tokens)
	}
	most := num(one, maxLogJoint)
	l, d, won := clipped(Exp(Min(t.Joint, most)), in)
	t.Loss, t.Slope, t.Clipped = l, where(LessOrEqual(t.Joint, most), d), won
	if p.Kind == TurnGSPO {
		t.Loss, t.Slope = Div(t.Loss, tokens), Div(t.Slope, tokens)
	}
}

// gmpo gives each token its row's loss. A slope is the derivative of the row's
// loss times the number of tokens by which the aggregation divides.
func gmpo(t *PolicyTerms, in PolicyInput) {
	d, zero := t.LogRatio, num(t.LogRatio, 0)
	mean := func(x *Node) *Node {
		return Div(in.Segments.sum(where(in.Mask, x)), Max(in.Segments.sum(cast(in.Mask, x.DType())), num(x, 1)))
	}
	held, inside := clamp(d, Neg(Hyper(in.Hyper, ClipLow)), Hyper(in.Hyper, ClipHigh))
	up, down := GreaterThan(in.Advantage, zero), LessThan(in.Advantage, zero)
	worse := where(up, Min(d, held))
	worse = Where(down, Max(d, held), worse)
	pass := LogicalOr(LogicalAnd(up, LessOrEqual(d, held)), LogicalAnd(down, GreaterOrEqual(d, held)))
	t.Clipped, t.ClippedLow = LogicalAnd(up, LogicalNot(inside)), LogicalAnd(down, LogicalNot(inside))
	t.Loss = Neg(Mul(mean(in.Advantage), Exp(mean(worse))))
	if in.Rollout != nil {
		// exp(−∞) is 0: a row with a zero weight does not count.
		t.Loss = Mul(t.Loss, Exp(mean(Log(Where(in.Mask, in.Rollout, OnesLike(in.Rollout))))))
	}
	t.Slope = where(pass, t.Loss)
}
