package model

import (
	"fmt"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/stretchr/testify/require"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/devicetest"
	"vagen/policy/vlm/internal/fused"
)

// The kernel of attention does what the graph does: with and without a mask and earlier tokens, with lengths and widths
// that its blocks divide and others. The same bits come again, with AVX-512 and without. A token of a row without any
// reads zeros.
func TestAttentionKernelsDoWhatTheGraphDoes(t *testing.T) {
	t.Parallel()
	d := devicetest.Kernels(t)
	for _, c := range []struct{ groups, kv, reps, length, past, dim int }{
		{2, 2, 3, 83, 70, 20}, {1, 1, 1, 5, 0, 64}, {3, 1, 2, 64, 192, 80}, {20, 1, 1, 33, 0, 8},
	} {
		r, what := newSource(uint64(c.length)), fmt.Sprintf("%+v", c)
		draw := func(heads, length int) operand { return r.normal(0, 1.5, c.groups, c.kv*heads, length, c.dim) }
		b := &Block{Heads: c.kv * c.reps, KVHeads: c.kv, HeadDim: c.dim, Causal: true, Compute: dtypes.Float32}
		build := func(n []*Node, masked bool) (*Node, StepKernels) {
			var use StepKernels
			q := Reshape(n[0], c.groups, c.kv, c.reps*c.length, c.dim)
			if !masked {
				o := DotGeneral(b.probs(q, n[1], nil), []int{3}, []int{0, 1}, n[2], []int{2}, []int{0, 1})
				use.attention(q, n[1], n[2], nil, o)
				return o, use
			}
			token := Iota(q.Graph(), shape(dtypes.Int32, c.groups, c.length), 1)
			own := CacheSegment{n[1], n[2], NotEqual(token, Const(q.Graph(), int32(3)))}
			var past []CacheSegment
			if c.past > 0 { // every third slot is empty, and so are the first 60
				slot := Iota(q.Graph(), shape(dtypes.Int32, c.groups, c.past), 1)
				full := LogicalAnd(GreaterOrEqual(slot, Const(q.Graph(), int32(60))),
					NotEqual(ModScalar(slot, int32(3)), ZerosLike(slot)))
				past = []CacheSegment{{n[3], n[4], full}}
			}
			all, allow := wholeCache(append(past, own), c.length)
			o := b.attendPast(q, c.length, append(past, own), true)
			use.attention(q, all.K, all.V, allow, o)
			return o, use
		}
		in := []operand{draw(c.reps, c.length), draw(1, c.length), draw(1, c.length), draw(1, max(1, c.past)),
			draw(1, max(1, c.past))}
		for _, masked := range []bool{true, false} {
			want := run(t, devicetest.Go(t), in, func(n []*Node) []*Node { o, _ := build(n, masked); return []*Node{o} })
			kernel := d.Fused("attention", func(n []*Node) ([]*Node, []device.Kernel) {
				o, use := build(n, masked)
				return []*Node{o}, use
			})
			got := runProgram(t, d, kernel, in)
			require.True(t, kernel.UsesKernels(), what)
			requireClose(t, what, got[0], widen(want[0]), 1e-5, 1e-5)
			before := fused.AllowAVX512(false)
			require.Equal(t, got, runProgram(t, d, kernel, in), what)
			fused.AllowAVX512(before)
		}
	}
}

// TestTokensWithoutAnyAreZero: padding is finite, whatever stands in the slots that it may not read.
func TestTokensWithoutAnyAreZero(t *testing.T) {
	t.Parallel()
	d := devicetest.Kernels(t)
	r := newSource(1)
	x := r.normal(0, 1, 1, 1, 2, 4)
	x.f[4] = 1e30 // of the second token
	kernel := d.Fused("attention", func(n []*Node) ([]*Node, []device.Kernel) {
		var use StepKernels
		allow := Const(n[0].Graph(), [][][]bool{{{true, false}, {false, false}}})
		o := Neg(n[0])
		use.attention(n[0], n[0], n[0], allow, o)
		return []*Node{o}, use
	})
	got := runProgram(t, d, kernel, []operand{x})[0]
	require.InDeltaSlice(t, x.f[:4], got[:4], 1e-6)
	require.Equal(t, make([]float32, 4), got[4:])
}
