package model

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"vagen/policy/loss"
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
	JointChosen  // 1 at tokens that ClipCov drops or KLCov penalises
	JointColumns
)

// JointStat names an entry of the unweighted statistics of a policy loss over the
// tokens that count.
type JointStat int

// The entries of the figures [JointStats] float64, as loss.Metrics has them.
const (
	JointStatClipped JointStat = iota
	JointStatClippedLow
	JointStatKL
	JointStatK3
	JointStatAbsKL
	JointStatRatioMean
	JointStatRatioMin
	JointStatRatioMax
	JointStatStd // spread of the turns' log-ratio over tokens
	JointStats
)

// JointLoss is a policy loss over all tokens of an optimiser step at once, with
// the KL term. It computes in float64, which is cheap for a few numbers per token.
type JointLoss struct {
	PolicyLoss
	KL      loss.KL
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
		Hyper: hyper, Mask: flag(JointMask), Segments: segments, Chosen: flag(JointChosen),
	}
	if l.Rollout {
		in.Rollout = column(JointRollout)
	}
	p := l.Terms(in)
	w, aux := column(JointWeight), column(JointAux)
	slopes = where(in.Mask, Mul(w, p.Slope))
	t := statSums{mask: in.Mask, one: cast(in.Mask, dtypes.Float64)}
	t.loss(&p, w)
	if l.KL != loss.NoKL {
		kl, d := klTerm(l.KL, Sub(in.LogProb, column(JointReference)))
		t.stats[StatKL] = Mul(aux, kl)
		slopes = Add(slopes, where(in.Mask, Mul(Mul(Hyper(hyper, KLCoef), aux), d)))
	}
	stats, figures = t.results(&p)
	return cast(slopes, dtypes.Float32), stats, figures
}

// statSums collects per-token numbers and sums them in one reduction at the end,
// because every separate reduction costs compile time.
type statSums struct {
	mask, one *Node
	stats     [Stats]*Node      // summed
	figures   [JointStats]*Node // averaged
}

// loss adds the statistics of a policy loss.
func (t *statSums) loss(p *PolicyTerms, w *Node) {
	held, _ := clamp(p.LogRatio, num(w, -maxLogRatio), num(w, maxLogRatio))
	t.stats[StatPolicy], t.stats[StatApproxKL] = Mul(w, p.Loss), Neg(Mul(w, p.LogRatio))
	if p.Clipped != nil {
		t.stats[StatClipped], t.figures[JointStatClipped] = where(p.Clipped, w), where(p.Clipped, t.one)
	}
	if p.ClippedLow != nil {
		t.stats[StatClippedLow], t.figures[JointStatClippedLow] = where(p.ClippedLow, w), where(p.ClippedLow, t.one)
	}
	t.figures[JointStatKL], t.figures[JointStatAbsKL] = Neg(p.LogRatio), Abs(p.LogRatio)
	t.figures[JointStatK3], t.figures[JointStatRatioMean] = Sub(Expm1(held), held), Exp(held)
}

// results computes the sums, averages, extremes and spread.
func (t *statSums) results(p *PolicyTerms) (stats, figures *Node) {
	columns := append(append([]*Node{t.one}, t.stats[:]...), t.figures[:]...)
	if p.Joint != nil {
		columns = append(columns, p.Joint, Mul(p.Joint, p.Joint))
	}
	for i, x := range columns {
		if x == nil {
			x = ZerosLike(t.one)
		}
		columns[i] = Reshape(where(t.mask, x), rows(x), 1)
	}
	sums := ReduceSum(Concatenate(columns, 1), 0)
	part := func(from, n int) *Node { return Slice(sums, AxisRange(from, from+n)) }
	tokens := Max(part(0, 1), Ones(sums.Graph(), shape(sums.DType(), 1)))
	stats, figures = part(1, int(Stats)), Div(part(1+int(Stats), int(JointStats)), tokens)

	// Extremes and the spread are not sums; their entries are still 0 here.
	ratio := cappedRatio(p.LogRatio)
	top := ReduceAllMax(where(t.mask, ratio))
	low := ReduceAllMin(Where(t.mask, ratio, BroadcastToShape(top, ratio.Shape())))
	stats = Add(stats, at(top, int(StatRatioMax), int(Stats)))
	figures = Add(figures, Add(at(low, int(JointStatRatioMin), int(JointStats)), at(top, int(JointStatRatioMax), int(JointStats))))
	if p.Joint != nil {
		moments := Div(part(1+int(Stats)+int(JointStats), 2), tokens)
		mean, square := Slice(moments, AxisRange(0, 1)), Slice(moments, AxisRange(1, 2))
		spread := Sqrt(Max(Sub(square, Mul(mean, mean)), ZerosLike(mean))) // rounding can make the difference negative
		figures = Add(figures, at(spread, int(JointStatStd), int(JointStats)))
	}
	return stats, figures
}

// at is a vector of n zeros except for x, of one element, at index i.
func at(x *Node, i, n int) *Node {
	place := Iota(x.Graph(), shape(x.DType(), n), 0)
	return Where(Equal(place, num(x, float64(i))), BroadcastToDims(Reshape(x), n), ZerosLike(place))
}
