package model

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/compute/support/xslices"
	. "github.com/gomlx/gomlx/core/graph"
)

// Every operation here comes as a pair: forward, and a backward written by hand
// that maps the gradient of the output to those of the inputs and parameters.
// Pairs let a caller choose what to keep and what to compute again.
//
// Matrices of tokens are [tokens, features]. Weights are [out, in], as in the
// checkpoint, and contracted on their last axis.

func rows(x *Node) int { return x.Shape().Dimensions[0] }

func dim(x *Node, axis int) int {
	d := x.Shape().Dimensions
	if axis < 0 {
		axis += len(d)
	}
	return d[axis]
}

// cast converts x to the dtype when it has another one.
func cast(x *Node, dt dtypes.DType) *Node {
	if x == nil || x.DType() == dt {
		return x
	}
	return ConvertDType(x, dt)
}

func f32(x *Node) *Node { return cast(x, dtypes.Float32) }

// linear is x·Wᵀ + b. b may be nil.
func linear(x, w, b *Node) *Node {
	y := DotGeneral(x, []int{1}, nil, cast(w, x.DType()), []int{1}, nil)
	if b != nil {
		y = Add(y, cast(Reshape(b, 1, b.Shape().Size()), x.DType()))
	}
	return y
}

// linearBack returns the gradients of linear for x, W and b (nil without bias).
// Weight gradients are float32.
func linearBack(dy, x, w *Node, bias bool) (dx, dw, db *Node) {
	dx = DotGeneral(dy, []int{1}, nil, cast(w, dy.DType()), []int{0}, nil)
	dw, db = weightGrads(dy, x, bias)
	return dx, dw, db
}

// weightGrads is linearBack for an input that needs no gradient.
func weightGrads(dy, x *Node, bias bool) (dw, db *Node) {
	dw = f32(DotGeneral(dy, []int{0}, nil, x, []int{0}, nil))
	if bias {
		db = ReduceSum(f32(dy), 0)
	}
	return dw, db
}

// rmsNorm is x / sqrt(mean(x²) + eps) · w, or with plusOne · (1 + w), computed in float32.
func rmsNorm(x, w *Node, eps float64, plusOne bool) *Node {
	xf := f32(x)
	n := Mul(xf, rmsScale(xf, eps))
	if plusOne {
		return cast(Mul(n, AddScalar(ExpandLeftToRank(f32(w), xf.Rank()), 1)), x.DType())
	}
	return Mul(cast(n, x.DType()), cast(ExpandLeftToRank(w, xf.Rank()), x.DType()))
}

func rmsScale(x *Node, eps float64) *Node {
	return Rsqrt(AddScalar(ReduceAndKeep(Mul(x, x), ReduceMean, -1), eps))
}

// sumRows adds over every axis but the last.
func sumRows(x *Node) *Node {
	return ReduceSum(x, xslices.Iota(0, x.Rank()-1)...)
}

func rmsNormBack(dy, x, w *Node, eps float64, plusOne bool) (dx, dw *Node) {
	dt := x.DType()
	dy, x = f32(dy), f32(x)
	r := rmsScale(x, eps)
	n := Mul(x, r)
	if plusOne {
		w = AddScalar(w, 1)
	}
	g := Mul(dy, ExpandLeftToRank(w, x.Rank()))
	dx = Mul(r, Sub(g, Mul(n, ReduceAndKeep(Mul(g, n), ReduceMean, -1))))
	return cast(dx, dt), sumRows(Mul(dy, n))
}

// layerNorm is (x − mean) / sqrt(var + eps) · w + b, computed in float32.
func layerNorm(x, w, b *Node, eps float64) *Node {
	xf := f32(x)
	n, _ := standardise(xf, eps)
	return cast(Add(Mul(n, ExpandLeftToRank(w, xf.Rank())), ExpandLeftToRank(b, xf.Rank())), x.DType())
}

func standardise(x *Node, eps float64) (n, scale *Node) {
	c := Sub(x, ReduceAndKeep(x, ReduceMean, -1))
	scale = Rsqrt(AddScalar(ReduceAndKeep(Mul(c, c), ReduceMean, -1), eps))
	return Mul(c, scale), scale
}

func layerNormBack(dy, x, w *Node, eps float64) (dx, dw, db *Node) {
	dt := x.DType()
	dy, x = f32(dy), f32(x)
	n, scale := standardise(x, eps)
	g := Mul(dy, ExpandLeftToRank(w, x.Rank()))
	inner := Sub(g, ReduceAndKeep(g, ReduceMean, -1))
	inner = Sub(inner, Mul(n, ReduceAndKeep(Mul(g, n), ReduceMean, -1)))
	return cast(Mul(scale, inner), dt), sumRows(Mul(dy, n)), sumRows(dy)
}

// rotate applies rotary positions to x [tokens, heads, headDim], rotate-half
// form: with the head split in halves (a, b), (a·cos − b·sin, b·cos + a·sin).
// cos and sin are [tokens, rotary/2]; of a head wider than rotary the rest is
// unchanged. Its gradient is rotate with −sin.
func rotate(x, cos, sin *Node) *Node {
	half := dim(cos, 1)
	dt := x.DType()
	xf := f32(x)
	a := Slice(xf, AxisRange(), AxisRange(), AxisRange(0, half))
	b := Slice(xf, AxisRange(), AxisRange(), AxisRange(half, 2*half))
	c := Reshape(cos, dim(cos, 0), 1, half)
	s := Reshape(sin, dim(sin, 0), 1, half)
	parts := []*Node{Sub(Mul(a, c), Mul(b, s)), Add(Mul(b, c), Mul(a, s))}
	if 2*half < dim(x, -1) {
		parts = append(parts, Slice(xf, AxisRange(), AxisRange(), AxisRange(2*half)))
	}
	return cast(Concatenate(parts, -1), dt)
}

// silu is x·σ(x); siluBack its derivative at x.
func silu(x *Node) *Node { return Mul(x, Sigmoid(x)) }

func siluBack(x *Node) *Node {
	s := Sigmoid(x)
	return Mul(s, AddScalar(Mul(x, OneMinus(s)), 1))
}

// geluErf is x·Φ(x) with the normal distribution's exact Φ.
func geluErf(x *Node) *Node {
	return Mul(x, MulScalar(AddScalar(Erf(MulScalar(x, math.Sqrt2/2)), 1), 0.5))
}

func geluErfBack(x *Node) *Node {
	phi := MulScalar(AddScalar(Erf(MulScalar(x, math.Sqrt2/2)), 1), 0.5)
	density := MulScalar(Exp(MulScalar(Mul(x, x), -0.5)), 1/math.Sqrt(2*math.Pi))
	return Add(phi, Mul(x, density))
}

// geluTanh is the tanh approximation, x/2·(1 + tanh(√(2/π)·(x + 0.044715 x³))).
func geluTanh(x *Node) *Node {
	return Mul(MulScalar(x, 0.5), AddScalar(geluInner(x), 1))
}

func geluInner(x *Node) *Node {
	return Tanh(MulScalar(Mul(x, AddScalar(MulScalar(Mul(x, x), 0.044715), 1)), math.Sqrt(2/math.Pi)))
}

func geluTanhBack(x *Node) *Node {
	t := geluInner(x)
	slope := MulScalar(AddScalar(MulScalar(Mul(x, x), 3*0.044715), 1), math.Sqrt(2/math.Pi))
	left := MulScalar(AddScalar(t, 1), 0.5)
	return Add(left, Mul(Mul(MulScalar(x, 0.5), OneMinus(Mul(t, t))), slope))
}

// softmax over the last axis, in float32.
func softmax(x *Node) *Node {
	x = f32(x)
	e := Exp(Sub(x, StopGradient(ReduceAndKeep(x, ReduceMax, -1))))
	return Div(e, ReduceAndKeep(e, ReduceSum, -1))
}

// takeRows returns the rows of x [n, features] at the int32 indices idx.
func takeRows(x, idx *Node) *Node {
	return Gather(x, Reshape(idx, idx.Shape().Size(), 1))
}

// takeRowsOrZero is takeRows where an index equal to the number of rows gives zeros.
func takeRowsOrZero(x, idx *Node) *Node {
	zero := Zeros(x.Graph(), x.Shape())
	zero = Slice(zero, AxisRange(0, 1))
	return takeRows(Concatenate([]*Node{x, zero}, 0), idx)
}

func shape(dt dtypes.DType, dims ...int) shapes.Shape { return shapes.Make(dt, dims...) }

// columns returns x[…, from:to].
func columns(x *Node, from, to int) *Node {
	return SliceAxis(x, -1, AxisRange(from, to))
}
