package model

import (
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/support/xslices"
	. "github.com/gomlx/gomlx/core/graph"

	"vagen/policy/vlm/internal/device"
)

// The gated delta rule (Yang et al., arXiv:2412.06464) updates a state S [key, value] with each token,
//
//	S ← e^g·S,  d = β·(v − Sᵀk),  S ← S + k·dᵀ,  o = Sᵀq,
//
// here in chunks of tokens: within a chunk all d follow from one triangular system, so that only the state
// goes from chunk to chunk one after the other. Everything is in float32.

// deltaChunk is the number of tokens of a chunk, a power of two: longer ones spend more operations
// within chunks, shorter ones more steps from chunk to chunk.
const deltaChunk = 32

// chunks divides tokens [groups, length, heads, …] into chunks [chunks, groups, heads, deltaChunk, …].
type chunks struct {
	groups, length, n int
	segment           *Node // [groups, length]

	// Bool: whether the second token is not after the first, and of its row [chunks, groups, 1, deltaChunk, deltaChunk];
	// whether a token is of the row of the one before the chunk, and of the last one [chunks, groups, 1, deltaChunk].
	same, enter, leave *Node
}

// newChunks makes chunks of groups in which states begin anew with every segment [groups, length] int32; with nil
// there are no segments.
func newChunks(g *Graph, groups, length int, segment *Node) *chunks {
	c := &chunks{groups: groups, length: length, n: (length + deltaChunk - 1) / deltaChunk, segment: segment}
	if segment == nil {
		c.segment = Zeros(g, shape(dtypes.Int32, groups, length))
	}
	row := c.split(ExpandAxes(c.segment, 2)) // [chunks, groups, 1, deltaChunk]
	last := columns(row, deltaChunk-1, deltaChunk)
	entered := Slice(row, AxisRange(0, 1), AxisRange(), AxisRange(), AxisRange(0, 1))
	if c.n > 1 {
		entered = Concatenate([]*Node{entered, Slice(last, AxisRange(0, c.n-1))}, 0)
	}
	c.enter, c.leave = Equal(row, entered), Equal(row, last)
	c.same = LogicalAnd(ExpandLeftToRank(before(g, deltaChunk), 5), Equal(ExpandAxes(row, 4), ExpandAxes(row, 3)))
	return c
}

// inChunks is the order of axes that makes [groups, chunks, deltaChunk, heads, …] of what is in chunks, and back.
var inChunks = []int{1, 0, 3, 2, 4}

// split fills the last chunk with zeros.
func (c *chunks) split(x *Node) *Node {
	x = padded(x, c.n*deltaChunk-c.length)
	x = Reshape(x, append([]int{c.groups, c.n, deltaChunk}, x.Shape().Dimensions[2:]...)...)
	return TransposeAllDims(x, inChunks[:x.Rank()]...)
}

// join is the inverse of split.
func (c *chunks) join(x *Node) *Node {
	d := x.Shape().Dimensions
	x = TransposeAllDims(x, inChunks[:len(d)]...)
	x = Reshape(x, append([]int{c.groups, c.n * deltaChunk, d[2]}, d[4:]...)...)
	return Slice(x, AxisRange(), AxisRange(0, c.length))
}

// padded has so many zeros after x [groups, length, …].
func padded(x *Node, by int) *Node {
	if by == 0 {
		return x
	}
	s := x.Shape().Clone()
	s.Dimensions[1] = by
	return Concatenate([]*Node{x, Zeros(x.Graph(), s)}, 1)
}

// deltaIn are the inputs of the rule in chunks: normalised q, k and v [chunks, groups, heads, deltaChunk, width], β
// and g [chunks, groups, heads, deltaChunk]. Its gradients have the same form.
type deltaIn struct{ q, k, v, beta, g *Node }

func (d deltaIn) list() []*Node { return []*Node{d.q, d.k, d.v, d.beta, d.g} }

func (d deltaIn) each(f func(*Node) *Node) deltaIn {
	return deltaIn{f(d.q), f(d.k), f(d.v), f(d.beta), f(d.g)}
}

// deltaRule is what forward and backward pass compute inside chunks.
type deltaRule struct {
	*chunks
	deltaIn
	decay     *Node // [i, j]: e^(g_{j+1} + … + g_i) where j is not after i and of its row, else 0
	enter     *Node // decay from before the chunk to a token, 0 in other rows
	leave     *Node // decay from a token to the end of the chunk
	through   *Node // [chunks, groups, heads, 1]: decay of the whole chunk
	kk, below *Node // products of keys, and the decay of j before i
	inverse   *Node // (I + A)⁻¹ with A_ij = β_i·kk_ij·below_ij
	probs     *Node // q_i·k_j·decay_ij
	u, w      *Node // d = u − w·S
}

// newDeltaRule makes the rule of tokens that are not in chunks yet.
func newDeltaRule(c *chunks, tokens deltaIn) *deltaRule {
	in := tokens.each(c.split)
	r := &deltaRule{chunks: c, deltaIn: in}
	total := sums(in.g, 1)
	r.decay = where(c.same, Exp(where(c.same, Sub(ExpandAxes(total, 4), ExpandAxes(total, 3)))))
	r.enter = where(c.enter, Exp(total))
	r.leave = where(c.leave, Exp(Sub(columns(total, deltaChunk-1, deltaChunk), total)))
	r.through = columns(r.enter, deltaChunk-1, deltaChunk)
	r.kk = product2(in.k, -1, in.k, -1)
	strict := newSquare(func(i, j int) bool { return j < i })
	r.below = Mul(r.decay, ExpandLeftToRank(Const(in.g.Graph(), strict), 5))
	r.inverse = inverseUnit(Mul(r.kk, Mul(r.below, ExpandAxes(in.beta, 4))))
	r.probs = Mul(product2(in.q, -1, in.k, -1), r.decay)
	r.u = product2(r.inverse, -1, scale(in.v, in.beta), -2)
	r.w = product2(r.inverse, -1, scale(in.k, Mul(in.beta, r.enter)), -2)
	return r
}

// sums adds the numbers x [chunks, groups, heads, deltaChunk] of the tokens up to each one with axis 1, from it on with
// 0.
func sums(x *Node, axis int) *Node {
	lower := newSquare(func(i, j int) bool { return j <= i })
	return DotGeneral(x, []int{3}, nil, Const(x.Graph(), lower), []int{axis}, nil)
}

// scale multiplies x […, tokens, width] by a number of each token.
func scale(x, by *Node) *Node { return Mul(x, ExpandAxes(by, -1)) }

// forward returns the outputs o [chunks, groups, heads, deltaChunk, value], the state before each chunk [chunks,
// groups, heads, key, value] and the one after all, from that before all.
func (r *deltaRule) forward(start *Node) (o, states, end *Node) {
	states, end = scanChunks(chunkScan{r.u, Neg(r.w), scale(r.k, r.leave), r.through}, start, false)
	o = Add(product2(scale(r.q, r.enter), -1, states, -2), product2(r.probs, -1, r.news(states), -2))
	return o, states, end
}

// news are the d of all tokens.
func (r *deltaRule) news(states *Node) *Node { return Sub(r.u, product2(r.w, -1, states, -2)) }

// backward maps the gradients of the outputs and of the state after all chunks to those of the inputs and of the
// state before them.
func (r *deltaRule) backward(states, do, dEnd *Node) (d deltaIn, dStart *Node) {
	qIn, kOut := scale(r.q, r.enter), scale(r.k, r.leave)
	add := product2(r.probs, -2, do, -2)
	dStates, dStart := scanChunks(chunkScan{add, kOut, Neg(r.w), r.through, product2(qIn, -2, do, -2)}, dEnd, true)
	n := r.news(states)
	dn := Add(add, product2(kOut, -1, dStates, -2))
	dProbs := product2(do, -1, n, -1)
	dqIn := product2(do, -1, states, -1)
	dkOut := product2(n, -1, dStates, -1)
	dw := Neg(product2(dn, -1, states, -1))
	dbv, dbk := product2(r.inverse, -2, dn, -2), product2(r.inverse, -2, dw, -2) // of β·v and of β·enter·k
	da := Neg(Add(product2(dbv, -1, r.u, -1), product2(dbk, -1, r.w, -1)))

	beta := ExpandAxes(r.beta, 4)
	dkk := Mul(da, Mul(r.below, beta))
	dqk := Mul(dProbs, r.decay)
	d.q = Add(product2(dqk, -1, r.k, -2), scale(dqIn, r.enter))
	d.k = Add(product2(dqk, -2, r.q, -2), product2(Add(dkk, TransposeAllDims(dkk, 0, 1, 2, 4, 3)), -1, r.k, -2))
	d.k = Add(d.k, Add(scale(dbk, Mul(r.beta, r.enter)), scale(dkOut, r.leave)))
	d.v = scale(dbv, r.beta)
	byWidth := func(x, y *Node) *Node { return ReduceSum(Mul(x, y), -1) }
	enterK := byWidth(dbk, scale(r.k, r.enter))
	d.beta = Add(byWidth(da, Mul(r.kk, r.below)), Add(byWidth(dbv, r.v), enterK))

	// Each decay passes its gradient times its value to the sums of g.
	pairs := Add(Mul(dProbs, r.probs), Mul(dkk, r.kk))
	leaving := byWidth(dkOut, kOut)
	total := Sub(ReduceSum(pairs, -1), ReduceSum(pairs, -2))
	total = Add(total, Add(byWidth(dqIn, qIn), Mul(r.beta, enterK)))
	through := ExpandAxes(ReduceSum(Mul(dStates, states), -2, -1), -1)
	end := Add(ReduceAndKeep(leaving, ReduceSum, -1), Mul(through, r.through))
	d.g = Add(sums(Sub(total, leaving), 0), end) // a token's g is in the sums of all later ones
	return d, dStart
}

// overRows is forward from states of zero, for rows in that were divided into chunks. Outputs are in tokens.
func (r *deltaRule) overRows(in deltaIn, start *Node, use *StepKernels, keep bool) (o, states *Node) {
	o, states, _ = r.forward(start)
	o = r.join(o)
	out := []*Node{o}
	if keep {
		out = append(out, states)
	}
	use.rule(append(in.list(), r.segment), out...)
	return o, states
}

// gradients is backward for overRows, from the gradient of the outputs.
func (r *deltaRule) gradients(in deltaIn, states, do *Node, use *StepKernels) deltaIn {
	by, _ := r.backward(states, r.split(do), ZerosLike(Squeeze(Slice(states, AxisRange(0, 1)), 0)))
	by = by.each(r.join)
	use.rule(append(in.list(), r.segment, states, do), by.list()...)
	return by
}

// chunkScan is a recurrence over chunks: x = add + left·S, S ← keep·S + rightᵀ·x + more. It has these arrays in the
// order of their constants, more only if there is one.
type chunkScan []*Node

const (
	scanAdd = iota
	scanLeft
	scanRight
	scanKeep
	scanMore
)

// scanChunks returns the state before each chunk, in the order of the chunks, and the last one. With back it starts
// at the last chunk, and "before" is after in time.
func scanChunks(c chunkScan, state *Node, back bool) (states, end *Node) {
	n := dim(c[scanAdd], 0)
	if n > 1 && indexes(state.Graph()) {
		return c.loop(state, back)
	}
	all := make([]*Node, n)
	for i := range n {
		at := i
		if back {
			at = n - 1 - i
		}
		all[at] = ExpandAxes(state, 0)
		state = c.step(func(x *Node) *Node { return Slice(x, AxisRange(at, at+1)) }, state)
	}
	return Concatenate(all, 0), state
}

// step returns the next state. take selects the current chunk.
func (c chunkScan) step(take func(x *Node) *Node, state *Node) *Node {
	one := func(x *Node) *Node { return Squeeze(take(x), 0) }
	x := Add(one(c[scanAdd]), product2(one(c[scanLeft]), -1, state, -2))
	next := Add(scale(state, one(c[scanKeep])), product2(one(c[scanRight]), -2, x, -2))
	if len(c) > scanMore {
		next = Add(next, one(c[scanMore]))
	}
	return next
}

// loop is scanChunks as a loop on the device, so that the program does not grow with the chunks.
func (c chunkScan) loop(state *Node, back bool) (states, end *Node) {
	g, n := state.Graph(), dim(c[scanAdd], 0)
	all := Zeros(g, shape(dtypes.Float32, append([]int{n}, state.Shape().Dimensions...)...))
	out := device.Repeat(n, append([]*Node{state, all}, c...), func(at *Node, x []*Node) []*Node {
		if back {
			at = Sub(Const(g, int32(n-1)), at)
		}
		start := func(x *Node) []*Node {
			return append([]*Node{at}, slices.Repeat([]*Node{Const(g, int32(0))}, x.Rank()-1)...)
		}
		next := chunkScan(x[2:]).step(func(x *Node) *Node {
			return DynamicSlice(x, start(x), append([]int{1}, x.Shape().Dimensions[1:]...))
		}, x[0])
		stored := DynamicUpdateSlice(x[1], ExpandAxes(x[0], 0), start(x[1]))
		return append([]*Node{next, stored}, x[2:]...)
	})
	return out[1], out[0]
}

// product2 is the product of matrices in the last two axes, contracted on one of each.
func product2(x *Node, xAxis int, y *Node, yAxis int) *Node {
	r := x.Rank()
	batch := xslices.Iota(0, r-2)
	return DotGeneral(x, []int{r + xAxis}, batch, y, []int{r + yAxis}, batch)
}

// inverseUnit is (I + a)⁻¹ for a [chunks, …, deltaChunk, deltaChunk] with zeros on and above the diagonal. It
// inverts blocks of 1, 2, 4, … rows: [[P, 0], [L, Q]]⁻¹ = [[P⁻¹, 0], [−Q⁻¹·L·P⁻¹, Q⁻¹]].
// A sum of powers of a would cancel where keys are alike.
func inverseUnit(a *Node) *Node {
	only := func(on func(i, j int) bool) *Node { return ExpandLeftToRank(Const(a.Graph(), newSquare(on)), a.Rank()) }
	inverse := BroadcastToShape(only(func(i, j int) bool { return i == j }), a.Shape())
	for size := 1; size < deltaChunk; size *= 2 {
		left := Mul(a, only(func(i, j int) bool { return i/size == j/size+1 && j/size%2 == 0 }))
		if size > 1 {
			left = product2(product2(inverse, -1, left, -2), -1, inverse, -2)
		}
		inverse = Sub(inverse, left)
	}
	return inverse
}

// newSquare is 1 where on, else 0.
func newSquare(on func(i, j int) bool) [][]float32 {
	x := make([][]float32, deltaChunk)
	for i := range x {
		x[i] = make([]float32, deltaChunk)
		for j := range x[i] {
			if on(i, j) {
				x[i][j] = 1
			}
		}
	}
	return x
}

// deltaStep is the rule for one token: q, k, v [rows, heads, width], β and g [rows, heads] and the state. The output
// is read from the state before, so that a pass over it serves both products.
func deltaStep(in deltaIn, state *Node) (o, after *Node) {
	state = scale(state, ExpandAxes(Exp(in.g), -1))
	read := func(x *Node) *Node { return ReduceSum(Mul(state, ExpandAxes(x, -1)), 2) }
	d := scale(Sub(in.v, read(in.k)), in.beta)
	o = Add(read(in.q), scale(d, ReduceSum(Mul(in.q, in.k), -1)))
	return o, Add(state, Mul(ExpandAxes(in.k, -1), ExpandAxes(d, 2)))
}
