package model

import (
	"fmt"

	"github.com/gomlx/gomlx/pkg/core/dtypes"
	. "github.com/gomlx/gomlx/pkg/core/graph"
)

// JointColumn names a column of the per-token numbers that a JointLoss reads.
type JointColumn int

// The columns of the input [n, JointColumns] float32. Rows after the last token
// are 0.
const (
	JointLogProb JointColumn = iota
	JointOld
	JointReference
	JointAdvantage
	JointWeight  // weight of the token's policy loss
	JointAux     // weight of its KL term
	JointRollout // importance weight, with JointLoss.Rollout
	JointMask    // 1 at tokens that count
	JointDropped // 1 at tokens that ClipCov drops
	JointColumns
)

// Figure names an entry of the statistics of a policy loss over tokens that
// count, all weighing the same.
type Figure int

// The entries of the figures [Figures] float64, as loss.Metrics has them.
const (
	FigureClipped Figure = iota
	FigureClippedLow
	FigureKL
	FigureK3
	FigureAbsKL
	FigureRatioMean
	FigureRatioMin
	FigureRatioMax
	FigureJointStd // spread of the turns' log-ratio over tokens
	Figures
)

// JointLoss is a policy loss over all tokens of an optimiser step at once, with
// the KL term. It computes in float64, which for a few numbers per token costs
// nothing.
type JointLoss struct {
	PolicyLoss
	KL      string // "", "k1", "abs", "k2", "k3"
	Rollout bool
}

// Key identifies the loss among compiled programs.
func (l *JointLoss) Key() string { return fmt.Sprintf("%+v", *l) }

// Eval builds the graph. cols is [n, JointColumns] float32, hyper [HyperParams]
// float64, segments nil for losses that need none. Slopes [n] float32 are the
// derivatives of Σ weight·loss + KLCoef·Σ aux·KL by each token's log-prob; stats
// [Stats] float64 have the entries of a policy loss.
func (l *JointLoss) Eval(cols, hyper *Node, segments *Segments) (slopes, stats, figures *Node) {
	n := rows(cols)
	column := func(c JointColumn) *Node { return cast(Reshape(columns(cols, int(c), int(c)+1), n), dtypes.Float64) }
	flag := func(c JointColumn) *Node { x := column(c); return NotEqual(x, ZerosLike(x)) }
	in := PolicyInput{
		LogProb: column(JointLogProb), Old: column(JointOld), Advantage: column(JointAdvantage),
		Hyper: hyper, Mask: flag(JointMask), Segments: segments, Dropped: flag(JointDropped),
	}
	if l.Rollout {
		in.Rollout = column(JointRollout)
	}
	p := l.Terms(in)
	w, aux := column(JointWeight), column(JointAux)
	sums := make([]*Node, Stats)
	put := func(s Stat, x *Node) { sums[s] = ReduceAllSum(where(in.Mask, x)) }
	put(StatPolicy, Mul(w, p.Loss))
	put(StatApproxKL, Neg(Mul(w, p.LogRatio)))
	if p.Clipped != nil {
		put(StatClipped, where(p.Clipped, w))
	}
	if p.ClippedLow != nil {
		put(StatClippedLow, where(p.ClippedLow, w))
	}
	ratio := cappedRatio(p.LogRatio)
	sums[StatRatioMax] = ReduceAllMax(where(in.Mask, ratio))
	slopes = where(in.Mask, Mul(w, p.Slope))
	if l.KL != "" {
		kl, d := klTerm(l.KL, Sub(in.LogProb, column(JointReference)))
		put(StatKL, Mul(aux, kl))
		slopes = Add(slopes, where(in.Mask, Mul(Mul(Hyper(hyper, KLCoef), aux), d)))
	}
	return cast(slopes, dtypes.Float32), scalars(cols.Graph(), sums), p.figures(in.Mask, ratio)
}

// figures describes the tokens under the mask.
func (p *PolicyTerms) figures(mask, ratio *Node) *Node {
	one := cast(mask, ratio.DType())
	tokens := Max(ReduceAllSum(one), num(one, 1))
	mean := func(x *Node) *Node { return Div(ReduceAllSum(where(mask, x)), tokens) }
	share := func(set *Node) *Node { return mean(where(set, OnesLike(ratio))) }
	out := make([]*Node, Figures)
	if p.Clipped != nil {
		out[FigureClipped] = share(p.Clipped)
	}
	if p.ClippedLow != nil {
		out[FigureClippedLow] = share(p.ClippedLow)
	}
	held, _ := within(p.LogRatio, num(ratio, -maxLogRatio), num(ratio, maxLogRatio))
	out[FigureKL] = Neg(mean(p.LogRatio))
	out[FigureK3] = mean(Sub(Expm1(held), held))
	out[FigureAbsKL] = mean(Abs(p.LogRatio))
	out[FigureRatioMean] = mean(ratio)
	out[FigureRatioMin] = ReduceAllMin(Where(mask, ratio, BroadcastToShape(ReduceAllMax(ratio), ratio.Shape())))
	out[FigureRatioMax] = ReduceAllMax(where(mask, ratio))
	if p.Joint != nil {
		off := Sub(p.Joint, mean(p.Joint))
		out[FigureJointStd] = Sqrt(mean(Mul(off, off)))
	}
	return scalars(ratio.Graph(), out)
}

// scalars strings float64 scalars together; nil is 0.
func scalars(g *Graph, xs []*Node) *Node {
	out := make([]*Node, len(xs))
	for i, x := range xs {
		if x == nil {
			x = ScalarZero(g, dtypes.Float64)
		}
		out[i] = Reshape(x, 1)
	}
	return Concatenate(out, 0)
}
