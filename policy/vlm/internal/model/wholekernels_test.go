package model

import (
	"math"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/stretchr/testify/require"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/devicetest"
	"vagen/policy/vlm/internal/fused"
)

// The kernels of a block's parts before and after attention do what the graph does, with what is kept for a backward
// pass and without, for numbers of tokens and widths that tiles divide and others. The same bits come again, and with
// AVX2.
func TestKernelsOfWholeRowsDoWhatTheGraphDoes(t *testing.T) {
	d := devicetest.Kernels(t) // not parallel to others, which allow AVX-512 or not
	for name, b := range map[string]Block{
		"llama": {Hidden: 288, Heads: 6, KVHeads: 2, HeadDim: 32, FF: 384, Eps: 1e-5},
		"all": {Hidden: 264, Heads: 5, KVHeads: 5, HeadDim: 54, FF: 601, Eps: 1e-3, QKVBias: true, QKNorm: true,
			OutBias: true, MLPBias: true},
		"gated": {Hidden: 256, Heads: 4, KVHeads: 1, HeadDim: 64, FF: 256, Eps: 1e-6, QKNorm: true, PlusOne: true,
			Gated: true},
	} {
		b.Causal, b.Compute = true, dtypes.Float32
		for _, length := range []int{89, 128} {
			for _, kept := range []bool{true, false} {
				t.Run(name, func(t *testing.T) { checkWholeRows(t, d, &b, length, kept) })
			}
		}
	}
}

func checkWholeRows(t *testing.T, d *device.Device, b *Block, length int, kept bool) {
	const groups = 3
	r, tokens := newSource(uint64(length)), groups*length
	angle := r.normal(0, 2, tokens, b.HeadDim/2)
	in := append(blockParams(r, b), r.normal(0, 1, tokens, b.Hidden),
		floats(each(angle.f, math.Cos), angle.dims...), floats(each(angle.f, math.Sin), angle.dims...))
	build := func(n []*Node) ([]*Node, []device.Kernel) {
		w, n := n[:len(n)-3], n[len(n)-3:]
		var use StepKernels
		y, all := b.Forward(w, n[0], n[1], n[2], &Layout{Groups: groups, Length: length, Use: &use, Kept: kept})
		called := 1
		if fused.WholeRows(tokens, b.Hidden, b.Hidden) {
			called = 3
			if b.Gated {
				called = 2
			}
		}
		require.Len(t, use, called)
		if kept {
			return append([]*Node{y}, all.Main...), use
		}
		return []*Node{y}, use
	}
	want := run(t, devicetest.Go(t), in, func(n []*Node) []*Node { out, _ := build(n); return out })
	kernel := d.Fused("whole rows", build)
	got := runProgram(t, d, kernel, in)
	require.True(t, kernel.UsesKernels())
	for i := range want {
		requireClose(t, "output", got[i], widen(want[i]), 2e-4, 2e-4)
	}
	before := fused.AllowAVX512(false)
	defer fused.AllowAVX512(before)
	require.Equal(t, got, runProgram(t, d, kernel, in))
}

// Of a context, the kernels compute the tokens that are fresh. What they make of the others is 0, and no other token
// reads it.
func TestKernelsOfWholeRowsLeaveOutWhatIsNotFresh(t *testing.T) {
	t.Parallel()
	d := devicetest.Kernels(t)
	const groups, length = 4, 600 // enough tokens without AVX-512, too
	b := &Block{Hidden: 264, Heads: 6, KVHeads: 2, HeadDim: 44, FF: 301, Eps: 1e-5, QKVBias: true, Causal: true,
		Compute: dtypes.Float32}
	r := newSource(9)
	angle := r.normal(0, 2, groups*length, b.HeadDim/2)
	in := append(blockParams(r, b), r.normal(0, 1, groups*length, b.Hidden),
		floats(each(angle.f, math.Cos), angle.dims...), floats(each(angle.f, math.Sin), angle.dims...))
	counts := []int{length, 1, 0, 299}
	fresh := func(i int) bool { return i%length < counts[i/length] }
	build := func(n []*Node) ([]*Node, []device.Kernel) {
		w, n := n[:len(n)-3], n[len(n)-3:]
		var use StepKernels
		at := shape(dtypes.Int32, groups, length)
		ends := Const(w[0].Graph(), [][]int32{{600}, {1}, {0}, {299}})
		is := LessThan(Iota(w[0].Graph(), at, 1), BroadcastToShape(ends, at))
		y, k, v := b.appendTo(w, n[0], n[1], n[2], nil, is, nil, &use)
		require.Len(t, use, 3)
		return []*Node{y, k, v}, use
	}
	want := run(t, devicetest.Go(t), in, func(n []*Node) []*Node { out, _ := build(n); return out })
	got := runProgram(t, d, d.Fused("fresh", build), in)
	for i := range want {
		wide := len(want[i]) / (groups * length)
		for k := range want[i] {
			token := k / wide
			if i > 0 { // [groups, heads, length, dim]
				token = k/(wide*length)*length + k/b.HeadDim%length
			}
			if !fresh(token) {
				want[i][k] = 0
			}
		}
		requireClose(t, "output", got[i], widen(want[i]), 2e-4, 2e-4)
	}
}
