package vlmtest

import (
	"encoding/json"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"vagen/policy/vlm/internal/model"
)

// Hybrid is a family of tests: a recurrent layer before every layer with attention. Nothing
// but this file knows its layers.
const Hybrid model.Family = "hybrid_of_tests"

func init() {
	model.RegisterFamily(Hybrid, func(text []byte, c *model.Config) (map[string]model.NewLayer, error) {
		own := &recurrent{hidden: c.Text.Hidden, width: 6, taps: 3, eps: c.Text.Eps}
		keys := struct {
			Width *int `json:"recurrent_width"`
		}{&own.width}
		for i := len(c.Text.Types); i < c.Text.Layers; i++ {
			c.Text.Types = append(c.Text.Types, []string{"recurrent", "full_attention"}[i%2])
		}
		return map[string]model.NewLayer{"recurrent": func(*model.Config, dtypes.DType) model.Layer {
			return own
		}}, json.Unmarshal(text, &keys)
	})
}

// recurrent is a layer with a short causal convolution and a decaying sum over its outputs:
//
//	u, a = W·norm(x),  y = silu(Σ_j w_j·u_{t−taps+1+j}),  s_t = σ(a)·s_{t−1} + (1−σ(a))·y_t,  x + V·s_t
//
// Its cache has the last taps−1 values of u and s.
type recurrent struct {
	hidden, width, taps int
	eps                 float64
}

func (r *recurrent) Params(base string) []model.Param {
	one := func(name string, init model.Init, dims ...int) model.Param {
		return model.Param{Parts: []model.Stored{{Name: base + "mixer." + name + ".weight", Dims: dims}}, Dims: dims,
			Init: init}
	}
	return []model.Param{
		one("norm", model.InitOne, r.hidden), one("in_proj", model.InitNormal, 2*r.width, r.hidden),
		one("conv1d", model.InitNormal, r.width, 1, r.taps), one("out_proj", model.InitNormal, r.hidden, r.width),
	}
}

func (r *recurrent) Merge(weights []*Node) []*Node { return weights }

// mix runs the layer on x [groups, length, hidden] after the cache. Only real [groups, length]
// tokens change the state, and tokens see only those of the same segment [groups, length].
func (r *recurrent) mix(w []*Node, x, window, state, real, segment *Node) (y, nextWindow, nextState *Node) {
	g, n, length, c := x.Graph(), x.Shape().Dimensions[0], x.Shape().Dimensions[1], r.width
	only := func(x *Node) *Node {
		return Where(BroadcastToDims(Reshape(real, n, length, 1), x.Shape().Dimensions...), x, ZerosLike(x))
	}
	scale := Inverse(Sqrt(AddScalar(ReduceAndKeep(Mul(x, x), ReduceMean, -1), r.eps)))
	in := DotGeneral(Mul(Mul(x, scale), Reshape(w[0], 1, 1, r.hidden)), []int{2}, nil, w[1], []int{1}, nil)
	u := only(Slice(in, AxisRange(), AxisRange(), AxisRange(0, c)))
	decay := only(Neg(Log1P(Exp(Neg(Slice(in, AxisRange(), AxisRange(), AxisRange(c)))))))

	all := Concatenate([]*Node{window, u}, 1)
	var sum *Node
	for j := range r.taps {
		back := r.taps - 1 - j // tokens before the current one
		tap := Slice(all, AxisRange(), AxisRange(j, j+length))
		if back > 0 && back < length { // what lies before the first token is the window
			same := Equal(Slice(segment, AxisRange(), AxisRange(back)), Slice(segment, AxisRange(), AxisRange(0, length-back)))
			same = Concatenate([]*Node{Slice(BroadcastToDims(Const(g, true), n, length), AxisRange(), AxisRange(0, back)), same},
				1)
			tap = Where(BroadcastToDims(Reshape(same, n, length, 1), n, length, c), tap, ZerosLike(tap))
		}
		tap = Mul(tap, Reshape(Slice(w[2], AxisRange(), AxisRange(), AxisRange(j, j+1)), 1, 1, c))
		if sum == nil {
			sum = tap
		} else {
			sum = Add(sum, tap)
		}
	}
	fresh := Mul(only(Mul(sum, Sigmoid(sum))), OneMinus(Exp(decay)))

	triangle := Const(g, lowerTriangle(length))
	total := Einsum("ij,bjc->bic", triangle, decay) // logarithm of the decay from before the first token
	difference := Sub(Reshape(total, n, length, 1, c), Reshape(total, n, 1, length, c))
	square := shapes.Make(dtypes.Int32, n, length, length)
	same := Equal(BroadcastToShape(Reshape(segment, n, length, 1), square),
		BroadcastToShape(Reshape(segment, n, 1, length), square))
	sees := LogicalAnd(same, LessOrEqual(Iota(g, square, 2), Iota(g, square, 1)))
	ok := BroadcastToDims(Reshape(sees, n, length, length, 1), n, length, length, c)
	weight := Exp(Where(ok, difference, Scalar(g, x.DType(), -1e9)))
	s := Add(Einsum("bijc,bjc->bic", weight, fresh), Mul(Exp(total), Reshape(state, n, 1, c)))
	y = Add(x, DotGeneral(s, []int{2}, nil, w[3], []int{1}, nil))

	count := Reshape(ReduceSum(ConvertDType(real, dtypes.Int32), 1), n, 1, 1)
	place := shapes.Make(dtypes.Int32, n, r.taps-1, length+r.taps-1)
	last := Equal(Iota(g, place, 2), Add(Iota(g, place, 1), BroadcastToDims(count, place.Dimensions...)))
	nextWindow = Einsum("bjp,bpc->bjc", ConvertDType(last, x.DType()), all)
	return y, nextWindow, Reshape(Slice(s, AxisRange(), AxisRange(length-1)), n, c)
}

func lowerTriangle(n int) [][]float32 {
	out := make([][]float32, n)
	for i := range out {
		out[i] = slices.Concat(slices.Repeat([]float32{1}, i+1), make([]float32, n-i-1))
	}
	return out
}

// packed is Forward's output.
func (r *recurrent) packed(w []*Node, x *Node, l *model.Layout) *Node {
	g, n, length := x.Graph(), l.Groups, l.Length
	real := GreaterOrEqual(l.Segment, ZerosLike(l.Segment))
	zero := func(dims ...int) *Node { return Zeros(g, shapes.Make(x.DType(), dims...)) }
	y, _, _ := r.mix(w, Reshape(x, n, length, r.hidden), zero(n, r.taps-1, r.width), zero(n, r.width), real, l.Segment)
	return Reshape(y, n*length, r.hidden)
}

func (r *recurrent) Forward(w []*Node, x, _, _ *Node, l *model.Layout) (*Node, model.Kept) {
	return r.packed(w, x, l), model.Kept{}
}

func (r *recurrent) Backward(w []*Node, x *Node, _ []*Node, _, _ *Node, l *model.Layout, dy *Node) (*Node, []*Node) {
	return model.ByGradient(func(w []*Node, x *Node) *Node { return r.packed(w, x, l) }, w, x, dy)
}

func (r *recurrent) Cache() []model.CacheArray {
	return []model.CacheArray{{Dims: []int{r.taps - 1, r.width}}, {Dims: []int{r.width}, DType: dtypes.Float32}}
}

func (r *recurrent) Append(w []*Node, x, _, _ *Node, past *model.Past, fresh *Node) (*Node, []*Node) {
	n, length := fresh.Shape().Dimensions[0], fresh.Shape().Dimensions[1]
	one := Zeros(x.Graph(), shapes.Make(dtypes.Int32, n, length))
	y, window, state := r.mix(w, Reshape(x, n, length, r.hidden), past.Prefix[0], past.Prefix[1], fresh, one)
	return Reshape(y, n*length, r.hidden), []*Node{window, state}
}

func (r *recurrent) Step(w []*Node, x, cos, sin *Node, past *model.Past, _ *model.StepKernels) (*Node, []*Node) {
	n := x.Shape().Dimensions[0]
	y, cache := r.Append(w, x, cos, sin, past, BroadcastToDims(Const(x.Graph(), true), n, 1))
	for i, next := range cache {
		cache[i] = past.Keep(i, next)
	}
	return y, cache
}

func (r *recurrent) Floats(tokens, _, _ int) (main, again int64) {
	return int64(3 * tokens * r.width), 0
}

func (r *recurrent) FLOPs(model.Pass) model.FLOPs { return model.FLOPs{} }

func (r *recurrent) Work(int) float64 { return float64(3 * r.width * r.hidden) }
