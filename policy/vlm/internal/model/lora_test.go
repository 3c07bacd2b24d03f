package model

import (
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/stretchr/testify/require"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/devicetest"
)

// With many rows adapters are merged into the matrix, with few they are products of their own: output and gradients of
// all rows are those of two halves.
func TestManyRowsReadMergedAdapters(t *testing.T) {
	b := &Block{Adapters: &Adapters{Scale: 2}}
	b.Adapters.Maps[mapQKV] = []AdapterPart{{Out: 3, On: true}, {Out: 2}}
	r := newSource(5)
	in := []operand{r.normal(0, 1, mergeRows, 7), r.normal(0, 1, 5, 7), r.normal(0, 1, 2, 7), r.normal(0, 1, 3, 2),
		r.normal(0, 1, mergeRows, 5)}
	both := func(in []*Node, from, to int) []*Node {
		rows := func(x *Node) *Node { return Slice(x, AxisRange(from, to)) }
		w := &blockWeights{qkv: in[1]}
		w.adapters[mapQKV] = []adapter{{in[2], in[3]}, {}}
		g := &blockWeights{}
		g.adapters[mapQKV] = make([]adapter, 2)
		require.Equal(t, to-from >= mergeRows, b.merges(mapQKV, rows(in[0]), in[1]))
		y := b.project(mapQKV, w, rows(in[0]), in[1], nil)
		dx, _, _ := b.projectBack(mapQKV, w, g, rows(in[4]), rows(in[0]), in[1], false)
		ad := g.adapters[mapQKV][0]
		return []*Node{y, dx, ad.a, ad.b}
	}
	devicetest.Each(t, func(t *testing.T, d *device.Device) {
		whole := run(t, d, in, func(in []*Node) []*Node { return both(in, 0, mergeRows) })
		halves := run(t, d, in, func(in []*Node) []*Node {
			p, q := both(in, 0, mergeRows/2), both(in, mergeRows/2, mergeRows)
			return []*Node{Concatenate([]*Node{p[0], q[0]}, 0), Concatenate([]*Node{p[1], q[1]}, 0),
				Add(p[2], q[2]), Add(p[3], q[3])}
		})
		for i := range whole {
			require.InDeltaSlice(t, halves[i], whole[i], 1e-3, "output %d", i) // sums of 256 products of about 10
		}
	})
}
