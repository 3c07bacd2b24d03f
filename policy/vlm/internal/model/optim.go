package model

import (
	. "github.com/gomlx/gomlx/core/graph"
)

// OptParam names an entry of the vector of numbers that an optimiser step reads.
type OptParam int

// The entries of the vector [OptParams] float32.
const (
	OptRate  OptParam = iota // learning rate
	OptBeta1                 //
	OptBeta2                 //
	OptEps                   //
	OptDecay                 // weight decay
	OptFix1                  // 1 − β1^t
	OptFix2                  // 1 − β2^t
	OptScale                 // factor on the gradients, from clipping by global norm
	OptParams
)

// AdamW is one step of Adam with decoupled weight decay (Loshchilov and Hutter,
// arXiv:1711.05101) on float32 masters. It returns new weights and moments.
//
//	m ← β1·m + (1−β1)·g,  v ← β2·v + (1−β2)·g²
//	p ← p − η·λ·p − η·(m/(1−β1^t)) / (√(v/(1−β2^t)) + ε)
func AdamW(p, m, v, g, opt *Node) (p2, m2, v2 *Node) {
	h := func(k OptParam) *Node { return Reshape(Slice(opt, AxisRange(int(k), int(k)+1))) }
	g = Mul(f32(g), h(OptScale))
	b1, b2 := h(OptBeta1), h(OptBeta2)
	m2 = Add(Mul(b1, m), Mul(OneMinus(b1), g))
	v2 = Add(Mul(b2, v), Mul(OneMinus(b2), Mul(g, g)))
	step := Div(Div(m2, h(OptFix1)), Add(Sqrt(Div(v2, h(OptFix2))), h(OptEps)))
	rate := h(OptRate)
	p2 = Sub(Sub(p, Mul(Mul(rate, h(OptDecay)), p)), Mul(rate, step))
	return p2, m2, v2
}

// SquareSums returns [n] float32: the sum of squares of each gradient.
func SquareSums(grads []*Node) *Node {
	out := make([]*Node, len(grads))
	for i, g := range grads {
		g = f32(g)
		out[i] = Reshape(ReduceAllSum(Mul(g, g)), 1)
	}
	if len(out) == 1 {
		return out[0]
	}
	return Concatenate(out, 0)
}
