package model

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
)

// Head is the end of the decoder: the final norm, then log-probs over the
// vocabulary, a value, or both, at selected positions only.
type Head struct {
	Eps    float64
	Tokens bool // has an output head
	Value  bool // has a value head
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

// scores are a head's outputs, each [n] float32, and the intermediate results
// that the backward pass needs.
type scores struct {
	LogProb, Entropy, Value *Node

	picked, normed      *Node // hidden states at the positions, before and after the norm
	logits, probs, mean *Node // logits are divided by the temperature; mean is Σ p·logit
	hot                 *Node
}

// forward reads x [tokens, hidden] at positions at [n] int32. target [n] int32
// are the tokens whose log-probs it computes: those that follow the positions.
func (h *Head) forward(w HeadWeights, x, at, target, temperature *Node) *scores {
	s := &scores{picked: takeRows(x, at)}
	s.normed = rmsNorm(s.picked, w.Norm, h.Eps)
	if h.Tokens {
		z := f32(linear(s.normed, w.Table, nil))
		s.logits = Div(z, temperature)
		top := StopGradient(ReduceAndKeep(s.logits, ReduceMax, -1))
		e := Exp(Sub(s.logits, top))
		sum := ReduceAndKeep(e, ReduceSum, -1)
		lse := Add(Log(sum), top)
		s.probs = Div(e, sum)
		n, vocab := dim(z, 0), dim(z, 1)
		s.hot = Equal(Iota(z.Graph(), shape(dtypes.Int32, n, vocab), 1), BroadcastToDims(Reshape(target, n, 1), n, vocab))
		own := ReduceSum(Where(s.hot, s.logits, ZerosLike(s.logits)), -1)
		s.mean = ReduceAndKeep(Mul(s.probs, s.logits), ReduceSum, -1)
		s.LogProb = Sub(own, Reshape(lse, n))
		s.Entropy = Reshape(Sub(lse, s.mean), n)
	}
	if h.Value {
		v := f32(linear(s.normed, w.Score, w.ScoreB))
		s.Value = Reshape(v, dim(v, 0))
	}
	return s
}

// Forward returns log-probs, entropies and values [n], nil for an output that the
// head does not have.
func (h *Head) Forward(w HeadWeights, x, at, target, temperature *Node) (logProb, entropy, value *Node) {
	s := h.forward(w, x, at, target, temperature)
	return s.LogProb, s.Entropy, s.Value
}

// backward maps the gradients of log-probs, entropies and values (nil where
// zero) to those of the picked hidden states and the parameters.
func (h *Head) backward(w HeadWeights, s *scores, temperature, dLogProb, dEntropy, dValue *Node) (dPicked *Node, g HeadWeights) {
	n := dim(s.picked, 0)
	var dn *Node
	if h.Tokens && (dLogProb != nil || dEntropy != nil) {
		dz := ZerosLike(s.logits)
		if dLogProb != nil {
			d := Reshape(dLogProb, n, 1)
			dz = Sub(Where(s.hot, BroadcastToShape(d, dz.Shape()), dz), Mul(d, s.probs))
		}
		if dEntropy != nil {
			dz = Sub(dz, Mul(Mul(Reshape(dEntropy, n, 1), s.probs), Sub(s.logits, s.mean)))
		}
		dz = cast(Div(dz, temperature), s.normed.DType())
		dn, g.Table, _ = linearBack(dz, s.normed, w.Table, false)
	} else if h.Tokens {
		g.Table = ZerosLike(f32(w.Table))
	}
	if h.Value && dValue != nil {
		dv := cast(Reshape(dValue, n, 1), s.normed.DType())
		var d *Node
		d, g.Score, g.ScoreB = linearBack(dv, s.normed, w.Score, true)
		if dn == nil {
			dn = d
		} else {
			dn = Add(dn, d)
		}
	} else if h.Value {
		g.Score, g.ScoreB = ZerosLike(w.Score), ZerosLike(w.ScoreB)
	}
	if dn == nil {
		dn = ZerosLike(s.normed)
	}
	dPicked, g.Norm = rmsNormBack(dn, s.picked, w.Norm, h.Eps)
	return dPicked, g
}

// Update runs the head's forward pass, the loss, and the backward pass. slot
// [tokens] int32 is the inverse of at: the index of each token among the
// positions, n for none. The gradient of x is added to dx. Parameter gradients, in
// the order of HeadWeights.List, are added to acc if it is not nil.
func (h *Head) Update(w HeadWeights, loss *Loss, x, at, slot, target, cols, hyper, dx *Node, acc []*Node) (*Node, []*Node, *Node) {
	temperature := Hyper(hyper, Temperature)
	s := h.forward(w, x, at, target, temperature)
	dl, de, dv, stats := loss.gradients(s, cols, hyper)
	dPicked, g := h.backward(w, s, temperature, dl, de, dv)
	grads := g.List()
	for i := range acc {
		grads[i] = Add(acc[i], grads[i])
	}
	return Add(dx, takeRowsOrZero(f32(dPicked), slot)), grads, stats
}

// Logits applies the final norm and the output head to hidden states [n,
// hidden]: [n, vocab] float32, not divided by a temperature.
func (h *Head) Logits(w HeadWeights, x *Node) *Node {
	return f32(linear(rmsNorm(x, w.Norm, h.Eps), w.Table, nil))
}
