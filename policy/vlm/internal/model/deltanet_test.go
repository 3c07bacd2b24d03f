package model

import (
	"fmt"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/stretchr/testify/require"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/devicetest"
)

// tinyDeltaNet is a layer with random weights.
func tinyDeltaNet() (*deltaNet, []operand) {
	l := &Linear{KeyHeads: 1, ValueHeads: 2, KeyDim: 4, ValueDim: 3, Kernel: 3}
	d := &deltaNet{&Block{Hidden: 6, FF: 5, Eps: 1e-6, PlusOne: true, Linear: l, Compute: dtypes.Float32}, l}
	r := newSource(8)
	return d, []operand{
		r.normal(0, 0.3, 6), r.normal(0, 0.6, l.Channels()+10, 6), r.normal(0, 0.6, l.Channels(), 1, 3), r.normal(-1, 0.5, 2),
		r.normal(0, 0.5, 2), r.normal(1, 0.3, 3), r.normal(0, 0.5, 6, 6), r.normal(0, 0.3, 6), r.normal(0, 0.5, 10, 6),
		r.normal(0, 0.5, 6, 5),
	}
}

// deltaBins are two bins of 40 tokens, longer than a chunk, with rows of 33 and 5, of 2, 37 and 1.
func deltaBins() (segments []int32, rows [][2]int) {
	at := 0
	for bin, lengths := range [][]int{{33, 5}, {2, 37, 1}} {
		for s, n := range lengths {
			rows = append(rows, [2]int{at, n})
			for range n {
				segments = append(segments, int32(s))
			}
			at += n
		}
		for ; at < 40*(bin+1); at++ {
			segments = append(segments, -1)
		}
	}
	return segments, rows
}

func TestGradientsOfDeltaNets(t *testing.T) {
	t.Parallel()
	d, in := tinyDeltaNet()
	n := len(in)
	segments, _ := deltaBins()
	row := make([]int, len(segments))
	for i, s := range segments {
		row[i] = 100*(i/40) + int(s)
	}
	in = append(in, newSource(9).normal(0, 1, 80, 6), ints(segments, 2, 40))
	layout := func(in []*Node) *Layout { return &Layout{Groups: 2, Length: 40, Segment: in[0]} }
	with := func(states bool) pair {
		return layerPair(d, in, n, false, layout, states, func(in []operand) []float64 {
			return plainDeltaNet(d, slices64(in[:n]), in[n].f, row)
		})
	}
	onEach(t, map[string]pair{"states are computed again": with(false)})
	with(true).check(t, devicetest.Go(t))
}

// Rows of a bin do not see each other, and reading a row in pieces, the last ones token by token, is the same.
func TestDeltaNetsReadRowsInPieces(t *testing.T) {
	t.Parallel()
	d, in := tinyDeltaNet()
	n := len(in)
	segments, rows := deltaBins()
	x := newSource(9).normal(0, 1, 80, 6)
	in = append(in, x, ints(segments, 2, 40))
	const first, steps = 34, 2 // tokens of a row that are read at once, and one by one
	var pieces []float64
	for _, row := range rows {
		piece := make([]float64, (first+steps)*6)
		copy(piece, x.f[row[0]*6:(row[0]+row[1])*6])
		pieces = append(pieces, piece...)
	}
	in = append(in, floats(pieces, len(rows), first+steps, 6))
	devicetest.Each(t, func(t *testing.T, dev *device.Device) {
		got := run(t, dev, in, func(in []*Node) []*Node {
			w, g := in[:n], in[0].Graph()
			y, _ := d.Forward(w, in[n], nil, nil, &Layout{Groups: 2, Length: 40, Segment: in[n+1]})
			var counts [][]int32
			var ends []int32
			for i, row := range rows {
				counts = append(counts, []int32{int32(row[1])})
				ends = append(ends, int32(i*first+min(first, row[1])-1))
			}
			place := shape(dtypes.Int32, len(rows), first)
			fresh := LessThan(Iota(g, place, 1), BroadcastToShape(Const(g, counts), place))
			var past Past
			for _, c := range d.Cache() {
				past.Prefix = append(past.Prefix, Zeros(g, shape(dtypes.Float32, c.Shape(len(rows), 0)...)))
			}
			piece := func(from, to int) *Node {
				return Reshape(Slice(in[n+2], AxisRange(), AxisRange(from, to)), len(rows)*(to-from), 6)
			}
			z, cache := d.Append(w, piece(0, first), nil, nil, &past, fresh, nil, nil)
			last, _ := d.Append(w, piece(0, first), nil, nil, &past, fresh, Const(g, ends), nil)
			out := []*Node{y, z, last}
			for i := range steps {
				past.Prefix = cache
				z, cache = d.Step(w, piece(first+i, first+i+1), nil, nil, &past, nil)
				out = append(out, z)
			}
			return out
		})
		for i, row := range rows {
			end := (i*first + min(first, row[1]) - 1) * 6
			requireClose(t, "the last token alone", got[2][i*6:(i+1)*6], widen(got[1][end:end+6]), 1e-6, 1e-6)
			for k := range row[1] {
				var want []float64
				for _, v := range got[0][(row[0]+k)*6 : (row[0]+k+1)*6] {
					want = append(want, float64(v))
				}
				have := got[1]
				at := i*first + k
				if k >= first+steps || k >= first && row[1] < first { // a row that has ended is not stepped
					break
				}
				if k >= first {
					have, at = got[3+k-first], i
				}
				requireClose(t, fmt.Sprintf("row %d token %d", i, k), have[at*6:(at+1)*6], want, 1e-5, 1e-5)
			}
		}
	})
}

// In bfloat16 the projections are of that type; the rule and gradients of parameters are float32.
func TestDeltaNetsComputeInBFloat16(t *testing.T) {
	t.Parallel()
	d, in := tinyDeltaNet()
	n := len(in)
	segments, _ := deltaBins()
	in = append(in, newSource(9).normal(0, 1, 80, 6), ints(segments, 2, 40))
	dev := devicetest.Go(t)
	pass := func(compute dtypes.DType) [][]float32 {
		b := *d.Block
		b.Compute = compute
		d := &deltaNet{&b, d.Linear}
		return run(t, dev, in, func(in []*Node) []*Node {
			l := &Layout{Groups: 2, Length: 40, Segment: in[n+1]}
			y, kept := d.Forward(in[:n], in[n], nil, nil, l)
			require.Equal(t, compute, y.DType())
			require.Equal(t, compute, kept.Main[0].DType())
			dx, grads := d.Backward(in[:n], in[n], append(kept.Main, kept.Again...), nil, nil, l, y)
			require.Equal(t, compute, dx.DType())
			for _, g := range grads {
				require.Equal(t, dtypes.Float32, g.DType())
			}
			return append([]*Node{f32(y), f32(dx)}, grads...)
		})
	}
	full, half := pass(dtypes.Float32), pass(dtypes.BFloat16)
	for k := range full {
		var off, size float64
		for i, v := range full[k] {
			e := float64(v - half[k][i])
			off, size = off+e*e, size+float64(v)*float64(v)
		}
		require.Less(t, off, 0.04*size, "result %d", k)
	}
}
