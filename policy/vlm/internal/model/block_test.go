package model

import (
	"math"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/stretchr/testify/require"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/devicetest"
)

// setting is a block with tokens in groups.
type setting struct {
	block   Block
	tokens  int
	layout  func(in []*Node) *Layout // in: the layout's inputs
	extra   []operand                // those inputs
	sees    func(i, j int) bool      // the same in words
	dropped bool                     // attention probabilities are computed again
}

// inBins says that tokens lie in bins of the given length and that only equal
// segments of a bin see each other, causally.
func inBins(segment []int32, length int) func(i, j int) bool {
	return func(i, j int) bool { return i/length == j/length && segment[i] == segment[j] && j <= i }
}

// blockParams draws parameters in the order of Block.Forward. Biases and norms
// are not at their neutral values.
func blockParams(r source, b *Block) []operand {
	var out []operand
	mat := func(rows, cols int) { out = append(out, r.normal(0, 1/math.Sqrt(float64(cols)), rows, cols)) }
	vec := func(on bool, n int, centre float64) {
		if on {
			out = append(out, r.normal(centre, 0.3, n))
		}
	}
	heads := (b.Heads + 2*b.KVHeads) * b.HeadDim
	if b.Gated {
		heads += b.Heads * b.HeadDim
	}
	vec(true, b.Hidden, 1)
	vec(b.LayerNorm, b.Hidden, 0)
	mat(heads, b.Hidden)
	vec(b.QKVBias, heads, 0)
	vec(b.QKNorm, b.HeadDim, 1.5)
	vec(b.QKNorm, b.HeadDim, 1.5)
	mat(b.Hidden, b.Heads*b.HeadDim)
	vec(b.OutBias, b.Hidden, 0)
	vec(true, b.Hidden, 1)
	vec(b.LayerNorm, b.Hidden, 0)
	up := 2 * b.FF
	if b.GELU {
		up = b.FF
	}
	mat(up, b.Hidden)
	vec(b.MLPBias, up, 0)
	mat(b.Hidden, b.FF)
	vec(b.MLPBias, b.Hidden, 0)
	return out
}

func slices64(in []operand) [][]float64 {
	out := make([][]float64, len(in))
	for i, v := range in {
		out[i] = v.f
	}
	return out
}

func (s setting) pair(seed uint64) pair {
	r := newSource(seed)
	b := s.block
	b.Compute = dtypes.Float32
	w := blockParams(r, &b)
	n := len(w)
	half := b.HeadDim / 2
	if b.Gated {
		half = 1 // part of a head turns
	}
	angle := r.normal(0, 2, s.tokens, half)
	in := append(append([]operand{}, w...), r.normal(0, 1, s.tokens, b.Hidden))
	in = append(in, floats(each(angle.f, math.Cos), angle.dims...), floats(each(angle.f, math.Sin), angle.dims...))
	in = append(in, s.extra...)
	return layerPair(&b, in, n, true, s.layout, !s.dropped, func(in []operand) []float64 {
		return plainBlock(&b, slices64(in[:n]), in[n].f, in[n+1].f, in[n+2].f, s.sees)
	})
}

// passes are what layers and blocks have in common.
type passes interface {
	Forward(weights []*Node, x, cos, sin *Node, l *Layout) (*Node, Kept)
	Backward(weights []*Node, x *Node, kept []*Node, cos, sin *Node, l *Layout, dy *Node) (*Node, []*Node)
}

// layerPair is that of a layer on n weights, x, if it turns cos and sin, and the inputs of the layout. again says
// whether the backward pass gets what it can compute again.
func layerPair(
	p passes, in []operand, n int, turns bool, layout func(in []*Node) *Layout, again bool,
	plain func(in []operand) []float64,
) pair {
	read := func(in []*Node) (w []*Node, x, cos, sin *Node, l *Layout) {
		rest := in[n+1:]
		if turns {
			cos, sin, rest = rest[0], rest[1], rest[2:]
		}
		return in[:n], in[n], cos, sin, layout(rest)
	}
	wrt := []int{n} // the layer's input first
	for i := range n {
		wrt = append(wrt, i)
	}
	return pair{
		in: in, wrt: wrt,
		forward: func(in []*Node) []*Node {
			y, _ := p.Forward(read(in))
			return []*Node{y}
		},
		back: func(in, dy []*Node) []*Node {
			w, x, cos, sin, l := read(in)
			_, k := p.Forward(w, x, cos, sin, l)
			kept := k.Main
			if again {
				kept = slices.Concat(k.Main, k.Again)
			}
			dx, grads := p.Backward(w, x, kept, cos, sin, l, dy[0])
			return append([]*Node{dx}, grads...)
		},
		plain: func(in []operand) []operand { return []operand{{f: plain(in), dims: in[n].dims}} },
	}
}

func TestGradientsOfBlocks(t *testing.T) {
	t.Parallel()
	// Two bins of five tokens: rows of 3 and 2, and a row of 4 with padding.
	segments := []int32{0, 0, 0, 1, 1, 0, 0, 0, 0, -1}
	rows := func(in []*Node) *Layout { return &Layout{Groups: 2, Length: 5, Segment: in[0]} }
	// Runs of 4, 2 and 1 patches, and one patch of padding, in four groups of four.
	index := []int32{0, 1, 2, 3, 4, 5, 8, 8, 6, 8, 8, 8, 8, 8, 8, 8}
	inverse := []int32{0, 1, 2, 3, 4, 5, 8, 16}
	own := []int32{0, 0, 0, 0, 0, 0, -1, -1, 0, -1, -1, -1, -1, -1, -1, -1}
	run := []int{0, 0, 0, 0, 1, 1, 2, -1}
	uneven := func(in []*Node) *Layout {
		return &Layout{Groups: 4, Length: 4, Segment: in[0], Index: in[1], Inverse: in[2]}
	}
	unevenSees := func(i, j int) bool { return run[i] == run[j] && run[i] >= 0 }
	vision := Block{Hidden: 6, Heads: 2, KVHeads: 2, HeadDim: 4, FF: 5, Eps: 0.01, QKVBias: true, OutBias: true,
		MLPBias: true}
	gelu := vision
	gelu.LayerNorm, gelu.GELU = true, true
	settings := map[string]setting{
		"shared key heads": {
			block:  Block{Hidden: 6, Heads: 4, KVHeads: 2, HeadDim: 4, FF: 5, Eps: 1e-5, QKVBias: true, Causal: true},
			tokens: 10, layout: rows, extra: []operand{ints(segments, 2, 5)}, sees: inBins(segments, 5),
		},
		"normalised heads, all biases": {
			block: Block{Hidden: 6, Heads: 3, KVHeads: 1, HeadDim: 4, FF: 5, Eps: 0.01, QKVBias: true, OutBias: true,
				MLPBias: true, QKNorm: true, Causal: true},
			tokens: 10, layout: rows, extra: []operand{ints(segments, 2, 5)}, sees: inBins(segments, 5), dropped: true,
		},
		"no biases": {
			block:  Block{Hidden: 4, Heads: 2, KVHeads: 2, HeadDim: 2, FF: 3, Eps: 1e-5, Causal: true},
			tokens: 10, layout: rows, extra: []operand{ints(segments, 2, 5)}, sees: inBins(segments, 5),
		},
		"gated, norms of 1 + weight": {
			block: Block{Hidden: 6, Heads: 4, KVHeads: 2, HeadDim: 4, FF: 5, Eps: 0.01, QKNorm: true, PlusOne: true,
				Gated: true, Causal: true},
			tokens: 10, layout: rows, extra: []operand{ints(segments, 2, 5)}, sees: inBins(segments, 5),
		},
		"even windows": {
			block: vision, tokens: 8, layout: func([]*Node) *Layout { return &Layout{Groups: 2, Length: 4} },
			sees: func(i, j int) bool { return i/4 == j/4 }, dropped: true,
		},
		"uneven windows": {
			block: vision, tokens: 8, layout: uneven, sees: unevenSees,
			extra: []operand{ints(own, 4, 4), ints(index), ints(inverse)},
		},
		"layer norm and GELU": {
			block: gelu, tokens: 8, layout: uneven, sees: unevenSees, dropped: true,
			extra: []operand{ints(own, 4, 4), ints(index), ints(inverse)},
		},
	}
	pairs := map[string]pair{}
	seed := uint64(10)
	for name, s := range settings {
		pairs[name] = s.pair(seed)
	}
	onEach(t, pairs)
}

// A token of padding may see only padding; nothing of it may reach real tokens,
// forward or backward, whatever it holds.
func TestPaddingDoesNotReachRealTokens(t *testing.T) {
	t.Parallel()
	b := Block{Hidden: 6, Heads: 2, KVHeads: 1, HeadDim: 4, FF: 5, Eps: 1e-6, Causal: true, Compute: dtypes.Float32}
	r := newSource(20)
	w := blockParams(r, &b)
	x := r.normal(0, 1, 5, 6)
	cos, sin := r.normal(0, 1, 5, 2), r.normal(0, 1, 5, 2)
	other := floats(append(append([]float64{}, x.f[:18]...), r.normal(0, 100, 12).f...), 5, 6)
	segment := ints([]int32{0, 0, 0, -1, -1}, 1, 5)
	devicetest.Each(t, func(t *testing.T, d *device.Device) {
		p := d.Program("pass", func(in []*Node) []*Node {
			n := len(w)
			l := &Layout{Groups: 1, Length: 5, Segment: in[n+3]}
			y, kept := b.Forward(in[:n], in[n], in[n+1], in[n+2], l)
			real := LessThan(Iota(y.Graph(), y.Shape(), 0), Scalar(y.Graph(), y.DType(), 3))
			dy := Where(real, OnesLike(y), ZerosLike(y))
			dx, grads := b.Backward(in[:n], in[n], kept.Main, in[n+1], in[n+2], l, dy)
			return append([]*Node{y, dx}, grads...)
		})
		pass := func(x operand) [][]float32 {
			return runProgram(t, d, p, append(append([]operand{}, w...), x, cos, sin, segment))
		}
		a, c := pass(x), pass(other)
		require.Equal(t, a[0][:18], c[0][:18])
		require.Equal(t, a[1][:18], c[1][:18])
		require.Equal(t, make([]float32, 12), a[1][18:], "the gradient of padding")
		for i := range w {
			requireClose(t, "gradients of the parameters", c[2+i], widen(a[2+i]), 1e-6, 1e-5)
		}
	})
}

func widen(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

// In bfloat16, which has 8 bits of mantissa, results are within some parts in a
// hundred of float32's; gradients of parameters stay float32.
func TestBlocksComputeInBFloat16(t *testing.T) {
	t.Parallel()
	r := newSource(21)
	b := Block{Hidden: 16, Heads: 4, KVHeads: 2, HeadDim: 4, FF: 24, Eps: 1e-6, QKVBias: true, QKNorm: true, Causal: true}
	w := blockParams(r, &b)
	in := append(append([]operand{}, w...), r.normal(0, 1, 8, 16), r.normal(0, 1, 8, 2), r.normal(0, 1, 8, 2))
	pass := func(t *testing.T, d *device.Device, compute dtypes.DType) [][]float32 {
		b := b
		b.Compute = compute
		return run(t, d, in, func(in []*Node) []*Node {
			n := len(w)
			l := &Layout{Groups: 1, Length: 8}
			y, kept := b.Forward(in[:n], in[n], in[n+1], in[n+2], l)
			require.Equal(t, compute, y.DType())
			dx, grads := b.Backward(in[:n], in[n], kept.Main, in[n+1], in[n+2], l, y)
			require.Equal(t, compute, dx.DType())
			for _, g := range grads {
				require.Equal(t, dtypes.Float32, g.DType())
			}
			return append([]*Node{f32(y), f32(dx)}, grads...)
		})
	}
	full := pass(t, devicetest.Go(t), dtypes.Float32)
	devicetest.Each(t, func(t *testing.T, d *device.Device) {
		half := pass(t, d, dtypes.BFloat16)
		limit := 0.05
		if d.PureGo() {
			limit = 0.2 // it also adds in bfloat16
		}
		for k := range full {
			var off, size float64
			for i := range full[k] {
				e := float64(full[k][i]) - float64(half[k][i])
				off, size = off+e*e, size+float64(full[k][i])*float64(full[k][i])
			}
			require.Less(t, math.Sqrt(off/size), limit, "result %d", k)
			require.Greater(t, math.Sqrt(off/size), 1e-4, "result %d was not computed in bfloat16", k)
		}
	})
}
