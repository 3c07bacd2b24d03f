package model

import (
	"fmt"
	"math"
	"testing"

	"github.com/gomlx/gomlx/pkg/core/dtypes"
	. "github.com/gomlx/gomlx/pkg/core/graph"
	"github.com/stretchr/testify/require"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/devicetest"
	"vagen/policy/vlm/internal/fused"
)

// The kernel's step of a block is that of the graph whose place it takes, for all kinds
// of blocks and numbers of rows, with slots that a row may not see, and rows that
// may see nothing. So are its products by kernels alone. The same bits come again.
func TestBlockKernelsDoWhatTheGraphDoes(t *testing.T) {
	d := devicetest.Best(t)
	if d.PureGo() || d.Accelerator() || !fused.Registered() {
		t.Skip("no kernels here")
	}
	for name, b := range map[string]Block{
		"llama":          {Hidden: 96, Heads: 6, KVHeads: 2, HeadDim: 16, FF: 88, Eps: 1e-5},
		"qwen2":          {Hidden: 64, Heads: 4, KVHeads: 4, HeadDim: 16, FF: 72, Eps: 1e-6, QKVBias: true},
		"qwen3":          {Hidden: 40, Heads: 8, KVHeads: 2, HeadDim: 72, FF: 136, Eps: 1e-6, QKNorm: true},
		"all biases":     {Hidden: 30, Heads: 3, KVHeads: 1, HeadDim: 6, FF: 21, Eps: 1e-3, QKVBias: true, QKNorm: true, OutBias: true, MLPBias: true},
		"heads in pairs": {Hidden: 24, Heads: 2, KVHeads: 2, HeadDim: 130, FF: 1, Eps: 1e-6},
	} {
		b.Causal, b.Compute = true, dtypes.Float32
		for _, rows := range []int{1, 3, fused.MostRows} {
			t.Run(fmt.Sprint(name, rows), func(t *testing.T) { checkBlockKernel(t, d, &b, rows) })
		}
	}
}

func checkBlockKernel(t *testing.T, d *device.Device, b *Block, rows int) {
	const past, recent = 11, 24
	r := newSource(uint64(rows))
	allow := func(length int) *device.Array {
		x := make([]bool, rows*length)
		for i := range x {
			x[i] = r.IntN(3) > 0 && i >= length // the first row sees nothing
		}
		a, err := device.Put(d, x, rows, length)
		require.NoError(t, err)
		return a
	}
	angle := r.normal(0, 2, rows, b.HeadDim/2)
	operands := append(blockParams(r, b), r.normal(0, 1, rows, b.Hidden),
		floats(each(angle.f, math.Cos), angle.dims...), floats(each(angle.f, math.Sin), angle.dims...))
	weights := len(operands) - 3
	for _, length := range []int{past, past, recent, recent} {
		operands = append(operands, r.normal(0, 1, rows, b.KVHeads, length, b.HeadDim))
	}
	at, err := device.Scalar(d, int32(7))
	require.NoError(t, err)
	in := []*device.Array{}
	for _, o := range operands {
		in = append(in, o.put(t, d))
	}
	in = append(in, allow(past), allow(recent), at)

	step := func(n []*Node, use *StepKernels) []*Node {
		w, n := n[:weights], n[weights:]
		x, cos, sin, at := n[0], n[1], n[2], n[9]
		p, q := Past{K: n[3], V: n[4], Allow: n[7]}, Past{K: n[5], V: n[6], Allow: n[8]}
		y, k, v := b.Step(w, x, cos, sin, p, q, at, false)
		use.Block(b, w, x, cos, sin, p, q, at, y, k, v)
		require.Len(t, *use, 1)
		return []*Node{y, k, v}
	}
	graph := d.Program("graph", func(n []*Node) []*Node { return step(n, &StepKernels{}) })
	want := outputs(t, graph, in)
	require.False(t, graph.UsesKernels())
	for what, p := range map[string]*device.Program{
		"block": d.Fused("block", func(n []*Node) ([]*Node, []device.Kernel) {
			var use StepKernels
			out := step(n, &use)
			return out, use
		}),
		"products": d.Fused("products", func(n []*Node) ([]*Node, []device.Kernel) { return step(n, &StepKernels{}), nil }),
	} {
		got := outputs(t, p, in)
		require.True(t, p.UsesKernels())
		require.Equal(t, got, outputs(t, p, in))
		for i := range want {
			most := 0.0
			for _, x := range want[i] {
				most = max(most, math.Abs(float64(x)))
			}
			for k, x := range want[i] {
				require.InDelta(t, x, got[i][k], 3e-6*most, "%s: output %d, number %d", what, i, k)
			}
		}
	}
}

func outputs(t *testing.T, p *device.Program, in []*device.Array) (all [][]float32) {
	out, err := p.Run(in)
	require.NoError(t, err)
	for _, a := range out {
		x, err := device.ReadNew[float32](a)
		require.NoError(t, err)
		all = append(all, x)
	}
	return all
}
