package model

import (
	"math"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/stretchr/testify/require"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/devicetest"
)

// Two rows are read in three ways: at once; in two appends, the second of which
// sees two stretches with holes; and token by token. Keys and values, and what
// comes out of the block, are the same.
func TestAppendingAndSteppingEqualOnePass(t *testing.T) {
	t.Parallel()
	b := &Block{Hidden: 6, Heads: 4, KVHeads: 2, HeadDim: 4, FF: 5, Eps: 1e-6, QKVBias: true, QKNorm: true, Causal: true,
		Compute: dtypes.Float32}
	r := newSource(30)
	w := blockParams(r, b)
	n := len(w)
	const rows, length = 2, 6
	angle := r.normal(0, 2, rows*length, 2)
	in := append(append([]operand{}, w...), r.normal(0, 1, rows*length, 6),
		floats(each(angle.f, math.Cos), angle.dims...), floats(each(angle.f, math.Sin), angle.dims...))
	devicetest.Each(t, func(t *testing.T, d *device.Device) {
		got := run(t, d, in, func(in []*Node) []*Node {
			g := in[0].Graph()
			w, x, cos, sin := in[:n], in[n], in[n+1], in[n+2]
			all := func(v bool, l int) *Node { return BroadcastToDims(Const(g, v), rows, l) }
			// part cuts tokens [from, to) out of every row.
			part := func(x *Node, from, to int) *Node {
				c := dim(x, 1)
				return Reshape(Slice(Reshape(x, rows, length, c), AxisRange(), AxisRange(from, to)), rows*(to-from), c)
			}
			appendPart := func(from, to int, past []CacheSegment) (y, k, v *Node) {
				return b.appendTo(w, part(x, from, to), part(cos, from, to), part(sin, from, to), past,
					all(true, to-from), nil, nil)
			}
			y, k, v := appendPart(0, length, nil)

			// Two tokens; two more and a hole of garbage; the last two see both.
			y1, k1, v1 := appendPart(0, 2, nil)
			y2, k2, v2 := appendPart(2, 4, []CacheSegment{{k1, v1, all(true, 2)}})
			hole := MulScalar(Ones(g, shape(dtypes.Float32, rows, 2, 1, 4)), 50)
			holed := CacheSegment{Concatenate([]*Node{hole, k2}, 2), Concatenate([]*Node{hole, v2}, 2),
				Concatenate([]*Node{all(false, 1), all(true, 2)}, 1)}
			past := []CacheSegment{{k1, v1, all(true, 2)}, holed}
			y3, k3, v3 := appendPart(4, 6, past)
			ends := AddScalar(MulScalar(Iota(g, shape(dtypes.Int32, rows), 0), 2), 1)
			last, _, _ := b.appendTo(w, part(x, 4, 6), part(cos, 4, 6), part(sin, 4, 6), past, all(true, 2), ends, nil)
			join := func(axis int, n ...*Node) *Node { return Concatenate(n, axis) }
			asRows := func(y *Node, l int) *Node { return Reshape(y, rows, l, 6) }
			yParts := join(1, asRows(y1, 2), asRows(y2, 2), asRows(y3, 2))

			// Token by token behind the first two.
			recent := CacheSegment{K: MulScalar(OnesLike(k), 70), V: MulScalar(OnesLike(v), 70)}
			steps := []*Node{asRows(y1, 2)}
			for i := range length - 2 {
				recent.Allow = LessOrEqual(Iota(g, shape(dtypes.Int32, rows, length), 1), Const(g, int32(i)))
				var s *Node
				s, recent.K, recent.V = b.stepTo(w, part(x, 2+i, 3+i), part(cos, 2+i, 3+i), part(sin, 2+i, 3+i),
					CacheSegment{k1, v1, all(true, 2)}, recent, Const(g, int32(i)))
				steps = append(steps, asRows(s, 1))
			}
			tail := func(c *Node) *Node { return Slice(c, AxisRange(), AxisRange(), AxisRange(2, length)) }
			head := func(c *Node) *Node { return Slice(c, AxisRange(), AxisRange(), AxisRange(0, length-2)) }
			return []*Node{asRows(y, length), yParts, join(1, steps...),
				k, join(2, k1, k2, k3), v, join(2, v1, v2, v3), tail(k), head(recent.K), tail(v), head(recent.V),
				last, Slice(asRows(y3, 2), AxisRange(), AxisRange(1, 2))}
		})
		sees := func(i, j int) bool { return i/length == j/length && j <= i }
		want := plainBlock(b, slices64(in[:n]), in[n].f, in[n+1].f, in[n+2].f, sees)
		for i, how := range []string{"at once", "in parts", "by steps"} {
			requireClose(t, how, got[i], want, absTolerance, relTolerance)
		}
		for i := 3; i < len(got); i += 2 {
			requireClose(t, "cache, or the last token alone", got[i+1], widen(got[i]), 1e-6, 0)
		}
	})
}

// What a row's invalid slots hold does not matter, nor what other rows hold.
func TestInvalidSlotsAreNotSeen(t *testing.T) {
	t.Parallel()
	b := &Block{Hidden: 4, Heads: 2, KVHeads: 1, HeadDim: 2, FF: 3, Eps: 1e-6, Causal: true, Compute: dtypes.Float32}
	r := newSource(31)
	w := blockParams(r, b)
	n := len(w)
	k := r.normal(0, 1, 2, 1, 3, 2)
	x, cos, sin := r.normal(0, 1, 4, 4), r.normal(0, 1, 4, 1), r.normal(0, 1, 4, 1)
	devicetest.Each(t, func(t *testing.T, d *device.Device) {
		p := d.Program("pass", func(in []*Node) []*Node {
			g := in[0].Graph()
			past := CacheSegment{in[n+3], in[n+3], Const(g, [][]bool{{true, false, true}, {false, false, false}})}
			y, _, _ := b.appendTo(in[:n], in[n], in[n+1], in[n+2], []CacheSegment{past},
				Const(g, [][]bool{{true, true}, {false, true}}), nil, nil)
			return []*Node{y}
		})
		pass := func(k, x operand) []float32 {
			return runProgram(t, d, p, append(append([]operand{}, w...), x, cos, sin, k))[0]
		}
		base := pass(k, x)
		require.NotContains(t, base, float32(math.NaN()))
		garbage := operand{f: append([]float64{}, k.f...), dims: k.dims}
		for _, slot := range []int{1, 3, 4, 5} {
			garbage.f[2*slot], garbage.f[2*slot+1] = 1e4, -1e4
		}
		got := pass(garbage, x)
		require.Equal(t, base[:8], got[:8], "the first row, whose second slot is invalid")
		require.Equal(t, base[12:], got[12:], "the second row sees only its own last token")

		other := operand{f: append([]float64{}, x.f...), dims: x.dims}
		for i := 8; i < 12; i++ {
			other.f[i] = 77 // a token that is not fresh
		}
		got = pass(k, other)
		require.Equal(t, base[:8], got[:8])
		require.Equal(t, base[12:], got[12:])
	})
}

func TestWritePutsSlotsInPlace(t *testing.T) {
	const rows, heads, slots, width = 2, 2, 7, 2
	for _, m := range []int{1, 3} {
		r := newSource(32)
		c, x := r.normal(0, 1, rows, heads, slots, width), r.normal(0, 1, rows, heads, m, width)
		devicetest.Each(t, func(t *testing.T, d *device.Device) {
			got := run(t, d, []operand{c, x}, func(in []*Node) []*Node {
				var out []*Node
				for at := range slots - m + 1 {
					out = append(out, WriteSlots(in[0], in[1], Const(in[0].Graph(), int32(at))))
				}
				return out
			})
			for at, y := range got {
				want := append([]float64{}, c.f...)
				for g := range rows * heads {
					copy(want[(g*slots+at)*width:], x.f[g*m*width:(g+1)*m*width])
				}
				requireClose(t, "slots", y, want, 0, 0)
			}
		})
	}
}
