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

// The kernels of a gated delta rule over whole rows do what the graph does, forward and backward: with one chunk and
// several, the last one filled or not, with rows that end inside chunks, from states of zero and from others, with
// widths that vectors divide and others. The same bits come again, with AVX-512 and without.
func TestDeltaRuleKernelsDoWhatTheGraphDoes(t *testing.T) {
	t.Parallel()
	d := devicetest.Kernels(t)
	const groups, heads = 2, 3
	for length, width := range map[int][2]int{9: {5, 40}, 64: {32, 7}, 83: {33, 32}} {
		r := newSource(uint64(length))
		segments := make([]int32, groups*length)
		for i := range segments {
			segments[i] = int32(i % length / 13 * (i / length)) // the first group has one
		}
		key, value := width[0], width[1]
		draw := func(centre, spread float64, dims ...int) operand {
			return r.normal(centre, spread, append([]int{groups, length, heads}, dims...)...)
		}
		in := []operand{draw(0, 0.3, key), draw(0, 0.3, key), draw(0, 1, value), draw(0.5, 0.2), draw(-0.5, 0.3),
			draw(0, 1, value), ints(segments, groups, length), r.normal(0, 1, groups, heads, key, value)}
		build := func(n []*Node) (out []*Node, use StepKernels) {
			x, c := deltaIn{n[0], n[1], n[2], n[3], n[4]}, newChunks(n[0].Graph(), groups, length, n[6])
			rule := newDeltaRule(c, x)
			start := Zeros(n[0].Graph(), shape(dtypes.Float32, groups, heads, key, value))
			o, states := rule.overRows(x, start, &use, true)
			by := rule.gradients(x, states, n[5], &use)
			whole := newChunks(n[0].Graph(), groups, length, nil) // as contexts are read: the states go on
			after, _, end := newDeltaRule(whole, x).forward(n[7])
			after = whole.join(after)
			use.rule(append(x.list(), whole.segment, n[7]), after, end)
			return append([]*Node{o, states, after, end}, by.list()...), use
		}
		want := run(t, devicetest.Go(t), in, func(n []*Node) []*Node { out, _ := build(n); return out })
		kernel := d.Fused("delta rule", func(n []*Node) ([]*Node, []device.Kernel) { return build(n) })
		got := runProgram(t, d, kernel, in)
		require.True(t, kernel.UsesKernels())
		require.Equal(t, got, runProgram(t, d, kernel, in))
		for i := range want {
			requireClose(t, fmt.Sprintf("%d tokens, output %d", length, i), got[i], widen(want[i]), 3e-5, 3e-5)
		}
		before := fused.AllowAVX512(false)
		require.Equal(t, got, runProgram(t, d, kernel, in))
		fused.AllowAVX512(before)
	}
}
