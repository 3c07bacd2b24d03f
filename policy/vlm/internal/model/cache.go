package model

import (
	"math"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
)

// CacheSegment is a segment of the KV cache: keys and values that new tokens may attend to.
type CacheSegment struct {
	K, V  *Node // [rows, KV heads, length, headDim]
	Allow *Node // [rows, length] bool: which slots hold a token of the row
}

// appendTo runs the block on length new tokens of each row, x [rows·length,
// hidden] row by row. They attend to the segments of past and, causally, to each
// other where fresh [rows, length] bool marks real tokens. It returns the block's
// output, of the last real tokens alone if ends are these, and the new keys and values [rows, KV heads, length,
// headDim].
func (b *Block) appendTo(
	weights []*Node, x, cos, sin *Node, past []CacheSegment, fresh, ends *Node, use *StepKernels,
) (y, k, v *Node) {
	length := dim(fresh, 1)
	l := &Layout{Groups: rows(x) / length, Length: length, Fresh: fresh, Ends: ends, Use: use}
	y, _ = b.attend(weights, x, cos, sin, l, func(q, newK, newV *Node) *Node {
		k, v = newK, newV
		length := length
		if ends != nil {
			length = 1 // no token is after the last one
		}
		all := append(slices.Clone(past), CacheSegment{K: k, V: v, Allow: fresh})
		if use == nil {
			return b.attendPast(q, length, all, length > 1)
		}
		whole, allow := wholeCache(all, length) // a kernel's inputs are before its output
		o := b.attendPast(q, length, all, length > 1)
		use.attention(q, whole.K, whole.V, allow, o)
		return o
	})
	return y, k, v
}

// wholeCache joins segments into one. allow [rows, length, slots] is what each of length tokens may attend to, which
// are those of the last segment or the last one of them.
func wholeCache(segments []CacheSegment, length int) (all CacheSegment, allow *Node) {
	var k, v, ok []*Node
	for i, p := range segments {
		n, m := dim(p.Allow, 0), dim(p.Allow, 1)
		may := BroadcastToDims(Reshape(p.Allow, n, 1, m), n, length, m)
		if i == len(segments)-1 && length > 1 {
			may = LogicalAnd(may, BroadcastToDims(before(p.Allow.Graph(), length), n, length, length))
		}
		k, v, ok = append(k, p.K), append(v, p.V), append(ok, may)
	}
	if len(segments) == 1 {
		return segments[0], ok[0]
	}
	return CacheSegment{K: Concatenate(k, 2), V: Concatenate(v, 2)}, Concatenate(ok, 2)
}

// before [1, length, length] is whether a token, the last index, is not after another.
func before(g *Graph, length int) *Node {
	at := shape(dtypes.Int32, 1, length, length)
	return LessOrEqual(Iota(g, at, 2), Iota(g, at, 1))
}

// stepTo is appendTo for one token per row. Its key and value are written to slot at
// (a scalar int32) of the segment recent before attention. It returns the
// block's output and the updated segment; if recent is donated, XLA updates it in
// place.
//
// If at has the rank 1, x has as many positions of each row of the cache, one behind the other: at [positions] are
// their slots, none if out of range, and recent.Allow [positions, length] what each of them may attend to. All are
// written before attention.
func (b *Block) stepTo(
	weights []*Node, x, cos, sin *Node, past CacheSegment, recent CacheSegment, at *Node,
) (y, k, v *Node) {
	l := &Layout{Groups: rows(x), Length: 1}
	y, _ = b.attend(weights, x, cos, sin, l, func(q, newK, newV *Node) *Node {
		now, n := recent, rows(x)
		if at.Rank() == 0 {
			k, v = WriteSlots(recent.K, newK, at), WriteSlots(recent.V, newV, at)
			now.K, now.V = k, v
		} else {
			k, v = writeEach(recent.K, newK, at), writeEach(recent.V, newV, at)
			now.K, now.V = forEach(k, n), forEach(v, n)
			past = CacheSegment{K: forEach(past.K, n), V: forEach(past.V, n), Allow: forEach(past.Allow, n)}
		}
		return b.attendPast(q, 1, []CacheSegment{past, now}, false)
	})
	return y, k, v
}

// forEach repeats the rows of a part of the cache for each of n positions.
func forEach(x *Node, n int) *Node {
	d := slices.Clone(x.Shape().Dimensions)
	to := slices.Insert(slices.Clone(d), 1, n/d[0])
	x = BroadcastToDims(Reshape(x, slices.Insert(slices.Clone(d), 1, 1)...), to...)
	return Reshape(x, append([]int{n}, d[1:]...)...)
}

// writeEach is WriteSlots of single entries of positions [n, heads, 1, d] of the rows of c to slots at [n] of their
// own.
func writeEach(c, x, at *Node) *Node {
	x = cast(x, c.DType())
	rows, each := dim(c, 0), dim(x, 0)/dim(c, 0)
	slot := Iota(c.Graph(), shape(dtypes.Int32, c.Shape().Dimensions...), 2)
	x, at = Reshape(x, rows, each, dim(x, 1), 1, dim(x, 3)), Reshape(at, rows, each)
	for i := range each {
		to := Reshape(Slice(at, AxisRange(), AxisRange(i, i+1)), rows, 1, 1, 1)
		entry := Reshape(Slice(x, AxisRange(), AxisRange(i, i+1)), rows, dim(x, 2), 1, dim(x, 4))
		here := Equal(slot, BroadcastToShape(to, slot.Shape()))
		c = Where(here, BroadcastToShape(entry, c.Shape()), c)
	}
	return c
}

// attendPast is softmax attention of q [rows, KV, reps·length, d] over several
// segments with one common normaliser, of which the last one may be causal.
func (b *Block) attendPast(q *Node, length int, segments []CacheSegment, causal bool) *Node {
	g := q.Graph()
	n, kv, rl := dim(q, 0), dim(q, 1), dim(q, 2)
	reps := rl / length
	score := make([]*Node, len(segments))
	var top *Node
	for i, p := range segments {
		m := dim(p.K, 2)
		s := MulScalar(f32(DotGeneral(q, []int{3}, []int{0, 1}, cast(p.K, q.DType()), []int{3}, []int{0, 1})),
			1/math.Sqrt(float64(b.HeadDim)))
		ok := Reshape(p.Allow, n, 1, 1, m)
		s = Reshape(s, n, kv*reps, length, m)
		if causal && i == len(segments)-1 {
			past := Reshape(before(g, length), 1, 1, length, m)
			ok = LogicalAnd(BroadcastToDims(ok, n, 1, length, m), BroadcastToDims(past, n, 1, length, m))
		}
		s = Where(BroadcastToShape(ok, s.Shape()), s, Scalar(g, dtypes.Float32, masked))
		score[i] = Reshape(s, n, kv, rl, m)
		peak := ReduceAndKeep(score[i], ReduceMax, -1)
		if top == nil {
			top = peak
		} else {
			top = Max(top, peak)
		}
	}
	var sum, out *Node
	for i, p := range segments {
		e := Exp(Sub(score[i], top))
		s := ReduceAndKeep(e, ReduceSum, -1)
		o := f32(DotGeneral(cast(e, q.DType()), []int{3}, []int{0, 1}, cast(p.V, q.DType()), []int{2}, []int{0, 1}))
		if i == 0 {
			sum, out = s, o
		} else {
			sum, out = Add(sum, s), Add(out, o)
		}
	}
	return cast(Div(out, sum), q.DType())
}

// indexes reports whether the backend has slices at computed indices, which GoMLX's pure-Go one lacks.
func indexes(g *Graph) bool {
	return g.Backend().Capabilities().Operations[compute.OpTypeDynamicUpdateSlice]
}

// WriteSlots copies x [rows, heads, m, d] into slots [at, at+m) of c, at a scalar int32.
func WriteSlots(c, x, at *Node) *Node {
	x = cast(x, c.DType())
	if indexes(c.Graph()) {
		zero := ScalarZero(c.Graph(), dtypes.Int32)
		return DynamicUpdateSlice(c, x, []*Node{zero, zero, at, zero})
	}
	g, length, m := c.Graph(), dim(c, 2), dim(x, 2)
	if m == 1 {
		here := Equal(Iota(g, shape(dtypes.Int32, c.Shape().Dimensions...), 2), BroadcastToDims(at, c.Shape().Dimensions...))
		return Where(here, BroadcastToShape(x, c.Shape()), c)
	}
	// A 0/1 matrix moves the new entries to their slots.
	from := Sub(Iota(g, shape(dtypes.Int32, length, m), 0), BroadcastToDims(at, length, m))
	move := ConvertDType(Equal(from, Iota(g, shape(dtypes.Int32, length, m), 1)), c.DType())
	moved := TransposeAllDims(DotGeneral(move, []int{1}, nil, x, []int{2}, nil), 1, 2, 0, 3)
	slot := Iota(g, shape(dtypes.Int32, length), 0)
	inside := LogicalAnd(GreaterOrEqual(slot, BroadcastToDims(at, length)),
		LessThan(slot, BroadcastToDims(AddScalar(at, float64(m)), length)))
	return Where(BroadcastToShape(Reshape(inside, 1, 1, length, 1), c.Shape()), moved, c)
}
