package model

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
)

// Head is the end of the decoder: the final norm, then log-probs over the
// vocabulary, a value, or both, at selected positions only.
type Head struct {
	Eps     float64
	PlusOne bool // the norm multiplies by 1 + its weights
	Tokens  bool // has an output head
	Value   bool // has a value head
	Squares bool // Forward sums the squares of the probabilities of all tokens
	Top     int  // Forward returns the most likely tokens, this many
	Chosen  int  // Forward returns the log-probs of this many tokens: all of the vocabulary, or those after the target
}

// HeadWeights are a head's parameters. Table [vocab, hidden] may be the
// embedding; absent parts are nil.
type HeadWeights struct {
	Norm, Table, Score, ScoreB *Node
}

// List returns the present parameters in a fixed order.
func (w HeadWeights) List() []*Node {
	var out []*Node
	for _, n := range []*Node{w.Norm, w.Table, w.Score, w.ScoreB} {
		if n != nil {
			out = append(out, n)
		}
	}
	return out
}

// Weights reads the parameters back from List's order.
func (h *Head) Weights(in []*Node) HeadWeights {
	w := HeadWeights{Norm: in[0]}
	in = in[1:]
	if h.Tokens {
		w.Table, in = in[0], in[1:]
	}
	if h.Value {
		w.Score, w.ScoreB = in[0], in[1]
	}
	return w
}

// HeadOutput are a head's results at n positions, nil where the head has none.
type HeadOutput struct {
	LogProb, Entropy, Value, Squares *Node // [n] float32

	Chosen *Node // [n, Chosen or Top] float32: log-probs
	IDs    *Node // [n, Top] float32: the most likely tokens, falling

	// What Backward needs besides: logits [n, vocab], not divided by the temperature, in the type of
	// computation, and the logarithm of their exponentials' sum at the temperature [n] float32.
	Logits, LogSum *Node

	// Kernels replace what computes LogProb and Entropy where nothing reads Logits and LogSum.
	Kernels StepKernels
}

// Scores returns the results that the head has, in order.
func (o HeadOutput) Scores() []*Node {
	var out []*Node
	for _, n := range []*Node{o.LogProb, o.Entropy, o.Value, o.Squares, o.Chosen, o.IDs} {
		if n != nil {
			out = append(out, n)
		}
	}
	return out
}

// Forward reads x [tokens, hidden] at positions at [n] int32. target [n] int32 are the tokens whose log-probs it
// computes: those that follow the positions. With chosen tokens it is [n, 1+Chosen], unless they are all.
func (h *Head) Forward(w HeadWeights, x, at, target, temperature *Node) HeadOutput {
	var o HeadOutput
	normed := rmsNorm(takeRows(x, at), w.Norm, h.Eps, h.PlusOne)
	if h.Tokens {
		o.Logits = linear(normed, w.Table, nil)
		logits := Div(f32(o.Logits), temperature)
		top := StopGradient(ReduceAndKeep(logits, ReduceMax, -1))
		e := Exp(Sub(logits, top))
		sum := ReduceAndKeep(e, ReduceSum, -1)
		n := dim(logits, 0)
		o.LogSum = Reshape(Add(Log(sum), top), n)
		label, chosen := h.targets(target)
		own := ReduceSum(where(hot(label, logits), logits), -1)
		mean := Reshape(Div(ReduceAndKeep(Mul(e, logits), ReduceSum, -1), sum), n)
		o.LogProb, o.Entropy = Sub(own, o.LogSum), Sub(o.LogSum, mean)
		if !h.Squares && max(h.Top, h.Chosen) == 0 {
			o.Kernels.scores(normed, w.Table, label, temperature, &o)
		}
		if h.Squares {
			o.Squares = Reshape(Div(ReduceAndKeep(Mul(e, e), ReduceSum, -1), Mul(sum, sum)), n)
		}
		all := Reshape(o.LogSum, n, 1)
		switch {
		case h.Top > 0:
			top, ids := TopK(logits, h.Top, -1)
			o.Chosen, o.IDs = Sub(top, all), f32(ids)
		case chosen != nil:
			o.Chosen = Sub(Reshape(Gather(logits, chosen), n, h.Chosen), all)
		case h.Chosen > 0:
			o.Chosen = Sub(logits, all)
		}
	}
	if h.Value {
		v := f32(linear(normed, w.Score, w.ScoreB))
		o.Value = Reshape(v, dim(v, 0))
	}
	return o
}

// targets divides the tokens that Forward reads into those that follow and the chosen ones, as indices [n·Chosen, 2] of
// logits; nil for none, and for all.
func (h *Head) targets(target *Node) (label, chosen *Node) {
	if target.Rank() == 1 {
		return target, nil
	}
	n := dim(target, 0)
	row := Iota(target.Graph(), shape(dtypes.Int32, n, h.Chosen), 0)
	both := Stack([]*Node{row, columns(target, 1, 1+h.Chosen)}, -1)
	return Reshape(columns(target, 0, 1), n), Reshape(both, n*h.Chosen, 2)
}

// hot marks the target's column in each row of the logits.
func hot(target, logits *Node) *Node {
	n, vocab := dim(logits, 0), dim(logits, 1)
	return Equal(Iota(logits.Graph(), shape(dtypes.Int32, n, vocab), 1), BroadcastToDims(Reshape(target, n, 1), n, vocab))
}

// where is a where on is set, else 0. on has the first axes of a; those of size 1 stand for all of a's.
func where(on, a *Node) *Node { return Where(BroadcastToShape(on, a.Shape()), a, ZerosLike(a)) }

// addTo is x + y; x may be nil, for nothing.
func addTo(x, y *Node) *Node {
	if x == nil {
		return y
	}
	return Add(x, y)
}

// The columns of slopes, the derivatives of a loss by what Forward returns.
const (
	SlopeLogProb = iota
	SlopeEntropy
	SlopeValue
	SlopeColumns
)

// Backward maps slopes [n, SlopeColumns+Chosen] float32 to the gradients of x and of the parameters, in the order of
// HeadWeights.List. x, at, target and temperature are those of Forward, kept are its Entropy, Logits and LogSum.
// slot [tokens] int32 is the inverse of at: the index of each token among the positions, n for none. The gradient of x
// is added to dx.
func (h *Head) Backward(
	w HeadWeights, x, at, slot, target, temperature, slopes, dx *Node, kept []*Node,
) (*Node, []*Node) {
	n := dim(at, 0)
	picked := takeRows(x, at)
	normed := rmsNorm(picked, w.Norm, h.Eps, h.PlusOne)
	slope := func(i int) *Node { return columns(slopes, i, i+1) } // [n, 1]
	var dn *Node
	var g HeadWeights
	if h.Tokens {
		entropy, logits, logSum := Reshape(kept[0], n, 1), Div(f32(kept[1]), temperature), Reshape(kept[2], n, 1)
		probs := Exp(Sub(logits, logSum))
		// ∂log-prob = hot − p, ∂entropy = −p·(log p + entropy)
		byEntropy := Mul(slope(SlopeEntropy), Add(Sub(logits, logSum), entropy))
		label, chosen := h.targets(target)
		total := Add(byEntropy, slope(SlopeLogProb))
		var byChosen *Node
		if h.Chosen > 0 {
			byChosen = columns(slopes, SlopeColumns, SlopeColumns+h.Chosen)
			total = Add(total, ReduceAndKeep(byChosen, ReduceSum, -1))
		}
		dz := Neg(Mul(probs, total))
		dz = Add(dz, where(hot(label, logits), BroadcastToShape(slope(SlopeLogProb), dz.Shape())))
		switch {
		case byChosen == nil:
		case chosen == nil:
			dz = Add(dz, byChosen)
		default:
			dz = ScatterSum(dz, chosen, Reshape(byChosen, n*h.Chosen), false, false)
		}
		dn, g.Table, _ = linearBack(cast(Div(dz, temperature), normed.DType()), normed, w.Table, false)
	}
	if h.Value {
		var d *Node
		d, g.Score, g.ScoreB = linearBack(cast(slope(SlopeValue), normed.DType()), normed, w.Score, true)
		dn = addTo(dn, d)
	}
	var dPicked *Node
	dPicked, g.Norm = rmsNormBack(dn, picked, w.Norm, h.Eps, h.PlusOne)
	return Add(dx, takeRowsOrZero(f32(dPicked), slot)), g.List()
}

// Logits applies the final norm and the output head to hidden states [n,
// hidden]: [n, vocab] float32, not divided by a temperature.
func (h *Head) Logits(w HeadWeights, x *Node) *Node {
	return f32(linear(rmsNorm(x, w.Norm, h.Eps, h.PlusOne), w.Table, nil))
}
