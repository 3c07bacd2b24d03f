package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/stretchr/testify/require"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/devicetest"
)

// operand is an input of a graph, and of the plain-Go function that it is held
// against. Exactly one of the slices is set. Floats are numbers that float32
// holds, so that both sides compute from the same input.
type operand struct {
	f    []float64
	i    []int32
	b    []byte
	dims []int
}

func (v operand) put(t testing.TB, d *device.Device) *device.Array {
	t.Helper()
	var a *device.Array
	var err error
	switch {
	case v.i != nil:
		a, err = device.Put(d, v.i, v.dims...)
	case v.b != nil:
		a, err = device.Put(d, v.b, v.dims...)
	default:
		a, err = device.Put(d, narrow(v.f), v.dims...)
	}
	require.NoError(t, err)
	return a
}

func narrow(x []float64) []float32 {
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32(v)
	}
	return out
}

func ints(x []int32, dims ...int) operand {
	if dims == nil {
		dims = []int{len(x)}
	}
	return operand{i: x, dims: dims}
}

func floats(x []float64, dims ...int) operand {
	if dims == nil {
		dims = []int{len(x)}
	}
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(float32(v))
	}
	return operand{f: out, dims: dims}
}

// source draws inputs.
type source struct{ *rand.Rand }

func newSource(seed uint64) source { return source{rand.New(rand.NewPCG(seed, 41))} }

// normal draws centre + spread·N(0, 1).
func (s source) normal(centre, spread float64, dims ...int) operand {
	x := make([]float64, product(dims))
	for i := range x {
		x[i] = centre + spread*s.NormFloat64()
	}
	return floats(x, dims...)
}

// run runs a graph once on plain inputs and reads its float32 outputs.
func run(t testing.TB, d *device.Device, in []operand, build device.Builder) [][]float32 {
	t.Helper()
	return runProgram(t, d, d.Program(t.Name(), build), in)
}

func runProgram(t testing.TB, d *device.Device, p *device.Program, in []operand) [][]float32 {
	t.Helper()
	arrays := make([]*device.Array, len(in))
	for i, v := range in {
		arrays[i] = v.put(t, d)
	}
	defer device.FreeAll(arrays...)
	return runAll(t, p, arrays)
}

func runAll(t testing.TB, p *device.Program, in []*device.Array) (all [][]float32) {
	t.Helper()
	out, err := p.Run(in)
	require.NoError(t, err)
	for _, a := range out {
		x, err := device.ReadNew[float32](a)
		require.NoError(t, err)
		all = append(all, x)
	}
	device.FreeAll(out...)
	return all
}

// Tolerances of graphs against float64. A sum of some dozen float32 products of
// numbers around 1 is off by about 1e-6; softmax and norms pass that on.
const (
	absTolerance = 1e-5
	relTolerance = 1e-5
)

func requireClose(t testing.TB, what string, got []float32, want []float64, abs, rel float64) {
	t.Helper()
	require.Len(t, got, len(want), what)
	for i, w := range want {
		if off := math.Abs(float64(got[i]) - w); !(off <= abs+rel*math.Abs(w)) {
			t.Fatalf("%s[%d] is %v, must be %v (off by %g)", what, i, got[i], w, off)
		}
	}
}

// pair is a forward pass with its hand-written backward pass, and the same
// forward pass in plain Go.
type pair struct {
	in []operand
	// forward makes the outputs, back the gradients of the inputs at wrt, in that
	// order, from the gradients of the outputs.
	forward func(in []*Node) []*Node
	back    func(in, dy []*Node) []*Node
	wrt     []int
	plain   func(in []operand) []operand
}

// gradientStep is the step of the central differences of the plain function,
// which computes in float64: the truncation error is about its square, 1e-10,
// the rounding error 1e-16/1e-5 = 1e-11.
const gradientStep = 1e-5

// check holds the graph against the plain function: outputs directly, gradients
// by central differences of a random weighting of the outputs. Gradients may be
// off by gradTolerance of the tensor's largest entry.
func (p pair) check(t *testing.T, d *device.Device) {
	t.Helper()
	const gradTolerance = 2e-5
	want := p.plain(p.in)
	r := newSource(99)
	all := append([]operand{}, p.in...)
	weights := make([][]float64, len(want))
	for k, y := range want {
		w := r.normal(0, 1, y.dims...)
		weights[k] = w.f
		all = append(all, w)
	}
	got := run(t, d, all, func(in []*Node) []*Node {
		x, dy := in[:len(p.in)], in[len(p.in):]
		return append(p.forward(x), p.back(x, dy)...)
	})
	for k, y := range want {
		requireClose(t, fmt.Sprintf("output %d", k), got[k], y.f, absTolerance, relTolerance)
	}
	require.Len(t, got, len(want)+len(p.wrt), "gradients")
	for k, at := range p.wrt {
		grad := p.numeric(at, weights)
		top := 0.0
		for _, g := range grad {
			top = max(top, math.Abs(g))
		}
		require.Greater(t, top, 1e-6, "the gradient of input %d is nothing to compare with", at)
		requireClose(t, fmt.Sprintf("gradient of input %d", at), got[len(want)+k], grad, gradTolerance*top, 0)
	}
}

// numeric is the gradient of Σ weights·outputs with respect to one input.
func (p pair) numeric(at int, weights [][]float64) []float64 {
	in := append([]operand{}, p.in...)
	x := append([]float64{}, in[at].f...)
	in[at].f = x
	total := func() float64 {
		var sum float64
		for k, y := range p.plain(in) {
			for i, v := range y.f {
				sum += weights[k][i] * v
			}
		}
		return sum
	}
	grad := make([]float64, len(x))
	for i, old := range x {
		x[i] = old + gradientStep
		up := total()
		x[i] = old - gradientStep
		down := total()
		x[i] = old
		grad[i] = (up - down) / (2 * gradientStep)
	}
	return grad
}

// onEach runs a table of pairs on every backend.
func onEach(t *testing.T, pairs map[string]pair) {
	t.Helper()
	devicetest.Each(t, func(t *testing.T, d *device.Device) {
		for name, p := range pairs {
			t.Run(name, func(t *testing.T) { p.check(t, d) })
		}
	})
}
