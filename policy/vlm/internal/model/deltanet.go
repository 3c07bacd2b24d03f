package model

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
)

// deltaNet is a layer with a gated delta rule in place of attention. Of its block's projection qkv the rows are u
// (queries and keys of the key heads, values of the value heads), the gate z of the outputs, and β and the step size
// of each value head. A short causal convolution runs over u. The cache has its last inputs and the state.
type deltaNet struct{ *Block }

// deltaWeights are the weights of a block that only this layer has.
type deltaWeights struct {
	conv  *Node // [channels of u, 1, taps]: the last tap meets the current token
	decay *Node // [value heads]: A_log
	step  *Node // [value heads]: dt_bias
	norm  *Node // [value width]
}

// deltaEps is fixed, whatever the config says.
const deltaEps = 1e-6

func newDeltaNet(c *Config, compute dtypes.DType) Layer {
	t := &c.Text
	return &deltaNet{c.block(Block{
		Hidden: t.Hidden, FF: t.FF, Eps: t.Eps, MLPBias: t.MLPBias, PlusOne: t.PlusOne, Linear: t.Linear,
		Compute: compute,
	}, c.linearParams, c.firstLayer(linearAttention))}
}

// values is the width of all value heads.
func (d *deltaNet) values() int { return d.Linear.ValueHeads * d.Linear.ValueDim }

// deltaTokens are the inputs of the rule for tokens [groups, length, …] with what its backward pass needs.
type deltaTokens struct {
	deltaIn          // of value heads, not in chunks
	taps    []*Node  // inputs of each tap [groups, length, channels]
	conv    *Node    // its output before the activation
	raw     [2]*Node // q and k of the key heads before they are normalised [groups, length, key heads, key]
	rate    *Node    // −e^decay [value heads]
	ahead   *Node    // a + step [groups, length, value heads]
}

// tokens computes the rule's inputs from the projection. window [groups, taps−1, channels] precedes the tokens, which
// read only those of the same segment [groups, length], nil for one, and change the state only where they are real
// [groups, length] bool, nil for all.
func (d *deltaNet) tokens(w *deltaWeights, proj *Node, groups, length int, window, segment, real *Node) *deltaTokens {
	x, c, last := d.Linear, d.Linear.Channels(), d.Linear.Channels()+d.values()
	in := f32(Reshape(proj, groups, length, dim(proj, 1)))
	t := &deltaTokens{}
	all := Concatenate([]*Node{f32(window), columns(in, 0, c)}, 1)
	for j := range x.Kernel {
		back := x.Kernel - 1 - j
		tap := Slice(all, AxisRange(), AxisRange(j, j+length))
		if segment != nil && back > 0 {
			tap = where(BroadcastToShape(ExpandAxes(sameBefore(segment, back), 2), tap.Shape()), tap)
		}
		t.taps = append(t.taps, tap)
		term := Mul(tap, d.tap(w, j))
		if j == 0 {
			t.conv = term
		} else {
			t.conv = Add(t.conv, term)
		}
	}
	y := silu(t.conv)
	keys := x.KeyHeads * x.KeyDim
	for i := range t.raw {
		t.raw[i] = Reshape(columns(y, i*keys, (i+1)*keys), groups, length, x.KeyHeads, x.KeyDim)
	}
	t.q = d.repeat(MulScalar(unit(t.raw[0]), d.queryScale()))
	t.k = d.repeat(unit(t.raw[1]))
	t.v = Reshape(columns(y, 2*keys, c), groups, length, x.ValueHeads, x.ValueDim)
	t.beta = Sigmoid(columns(in, last, last+x.ValueHeads))
	t.ahead = Add(columns(in, last+x.ValueHeads, last+2*x.ValueHeads), ExpandLeftToRank(w.step, 3))
	t.rate = Neg(Exp(ExpandLeftToRank(w.decay, 3)))
	t.g = Mul(softplus(t.ahead), t.rate)
	if real != nil {
		on := BroadcastToShape(ExpandAxes(real, 2), t.g.Shape())
		t.beta, t.g = where(on, t.beta), where(on, t.g)
	}
	return t
}

// tap returns the weights of one tap by channel, rounded to the type of computation as the matrices are.
func (d *deltaNet) tap(w *deltaWeights, j int) *Node {
	conv := f32(cast(w.conv, d.Compute))
	return Reshape(Slice(conv, AxisRange(), AxisRange(), AxisRange(j, j+1)), 1, 1, dim(conv, 0))
}

// sameBefore [groups, length] marks tokens of which the token so many before is of the same segment.
func sameBefore(segment *Node, back int) *Node {
	g, n, length := segment.Graph(), dim(segment, 0), dim(segment, 1)
	none := BroadcastToDims(Const(g, false), n, min(back, length))
	if back >= length {
		return none
	}
	same := Equal(Slice(segment, AxisRange(), AxisRange(back)), Slice(segment, AxisRange(), AxisRange(0, length-back)))
	return Concatenate([]*Node{none, same}, 1)
}

// repeat gives every value head its key head, the same for successive ones; sumRepeated is its gradient.
func (d *deltaNet) repeat(x *Node) *Node {
	s, times := x.Shape().Dimensions, d.Linear.ValueHeads/d.Linear.KeyHeads
	x = BroadcastToDims(ExpandAxes(x, 3), s[0], s[1], s[2], times, s[3])
	return Reshape(x, s[0], s[1], s[2]*times, s[3])
}

func (d *deltaNet) sumRepeated(x *Node) *Node {
	s, times := x.Shape().Dimensions, d.Linear.ValueHeads/d.Linear.KeyHeads
	return ReduceSum(Reshape(x, s[0], s[1], s[2]/times, times, s[3]), 3)
}

func (d *deltaNet) queryScale() float64 { return 1 / math.Sqrt(float64(d.Linear.KeyDim)) }

// unit is x/√(Σx² + deltaEps); unitBack its gradient.
func unit(x *Node) *Node { return Mul(x, unitScale(x)) }

func unitScale(x *Node) *Node {
	return Rsqrt(AddScalar(ReduceAndKeep(Mul(x, x), ReduceSum, -1), deltaEps))
}

func unitBack(dy, x *Node) *Node {
	r := unitScale(x)
	y := Mul(x, r)
	return Mul(r, Sub(dy, Mul(y, ReduceAndKeep(Mul(dy, y), ReduceSum, -1))))
}

func softplus(x *Node) *Node { return Add(MaxScalar(x, 0), Log1P(Exp(Neg(Abs(x))))) }

// tokensBack maps the gradients of the rule's inputs to those of u, and of β and the step size, among the columns of
// the projection, and stores those of the weights in g.
func (d *deltaNet) tokensBack(t *deltaTokens, w, g *deltaWeights, by deltaIn, segment *Node) (du, dHeads *Node) {
	n, length := dim(t.g, 0), dim(t.g, 1)
	flat := func(x *Node) *Node { return Reshape(x, n, length, dim(x, 2)*dim(x, 3)) }
	dq := unitBack(MulScalar(d.sumRepeated(by.q), d.queryScale()), t.raw[0])
	dk := unitBack(d.sumRepeated(by.k), t.raw[1])
	dy := Concatenate([]*Node{flat(dq), flat(dk), flat(by.v)}, 2)
	dConv := Mul(dy, siluBack(t.conv))
	taps := make([]*Node, len(t.taps))
	for j, tap := range t.taps {
		back := len(taps) - 1 - j
		taps[j] = Reshape(ReduceSum(Mul(dConv, tap), 0, 1), dim(dConv, 2), 1, 1)
		one := Mul(dConv, d.tap(w, j))
		if back > 0 {
			one = where(BroadcastToShape(ExpandAxes(sameBefore(segment, back), 2), one.Shape()), one)
			one = earlier(one, back)
		}
		if du == nil {
			du = one
		} else {
			du = Add(du, one)
		}
	}
	g.conv = Concatenate(taps, 2)
	dAhead := Mul(by.g, Mul(t.rate, Sigmoid(t.ahead)))
	g.decay, g.step = sumRows(Mul(by.g, t.g)), sumRows(dAhead)
	dBeta := Mul(by.beta, Mul(t.beta, OneMinus(t.beta)))
	return du, Concatenate([]*Node{dBeta, dAhead}, 2)
}

// earlier moves x [groups, length, …] back in time, with zeros at the end.
func earlier(x *Node, by int) *Node {
	s := x.Shape().Clone()
	if by >= s.Dimensions[1] {
		return ZerosLike(x)
	}
	s.Dimensions[1] = by
	return Concatenate([]*Node{Slice(x, AxisRange(), AxisRange(by)), Zeros(x.Graph(), s)}, 1)
}

// gateOf returns the columns of z [tokens, value heads, value] float32.
func (d *deltaNet) gateOf(proj *Node) *Node {
	c := d.Linear.Channels()
	return Reshape(f32(columns(proj, c, c+d.values())), rows(proj), d.Linear.ValueHeads, d.Linear.ValueDim)
}

// mixed normalises the rule's outputs o [tokens, value heads·value] by head and multiplies them by silu(z).
func (d *deltaNet) mixed(w *deltaWeights, o, proj *Node) *Node {
	z := d.gateOf(proj)
	n := rmsNorm(Reshape(o, z.Shape().Dimensions...), w.norm, d.Eps, false)
	return Reshape(cast(Mul(f32(n), silu(z)), o.DType()), o.Shape().Dimensions...)
}

// mixedBack maps the gradient of mixed to those of o and of z.
func (d *deltaNet) mixedBack(w, g *deltaWeights, dy, o, proj *Node) (do, dz *Node) {
	z := d.gateOf(proj)
	dy, o = f32(Reshape(dy, z.Shape().Dimensions...)), f32(Reshape(o, z.Shape().Dimensions...))
	dz = Mul(Mul(dy, rmsNorm(o, w.norm, d.Eps, false)), siluBack(z))
	do, g.norm = rmsNormBack(Mul(dy, silu(z)), o, w.norm, d.Eps, false)
	return do, Reshape(dz, rows(proj), d.values())
}

// empty are a window and a state before the first token.
func (d *deltaNet) empty(g *Graph, groups int) (window, state *Node) {
	x := d.Linear
	return Zeros(g, shape(dtypes.Float32, groups, x.Kernel-1, d.Linear.Channels())),
		Zeros(g, shape(dtypes.Float32, groups, x.ValueHeads, x.KeyDim, x.ValueDim))
}

// flat is the rule's output as [tokens, value heads·value] in the type of computation.
func (d *deltaNet) flat(o *Node) *Node {
	return cast(Reshape(o, dim(o, 0)*dim(o, 1), d.values()), d.Compute)
}

// begin returns the weights, x in the type of computation, and its projection.
func (d *deltaNet) begin(weights []*Node, x *Node) (w *blockWeights, in, proj *Node) {
	w, in = d.weights(weights), cast(x, d.Compute)
	return w, in, d.project(mapQKV, w, d.norm(in, w.norm1, nil), w.qkv, nil)
}

func (d *deltaNet) Forward(weights []*Node, x, _, _ *Node, l *Layout) (*Node, Kept) {
	w, x, proj := d.begin(weights, x)
	window, start := d.empty(x.Graph(), l.Groups)
	c := newChunks(x.Graph(), l.Groups, l.Length, l.Segment)
	t := d.tokens(&w.delta, proj, l.Groups, l.Length, window, l.Segment, nil)
	o, states := newDeltaRule(c, t.each(c.split)).overRows(t.deltaIn, start, c, l.Use, l.Again)
	core := d.flat(o)
	mixed := d.mixed(&w.delta, core, proj)
	y, mid, up := d.finish(w, x, mixed, mixed, l)
	return y, Kept{Main: []*Node{proj, core, mid, up}, Again: []*Node{states}}
}

func (d *deltaNet) Backward(weights []*Node, x *Node, kept []*Node, _, _ *Node, l *Layout, dy *Node) (*Node, []*Node) {
	w, g := d.weights(weights), &blockWeights{}
	d.slots(g) // allocates the adapters' entries
	x, dy = cast(x, d.Compute), cast(dy, d.Compute)
	proj, core, mid, up := kept[0], kept[1], kept[2], kept[3]
	dMid, dMixed := d.finishBack(w, g, dy, d.mixed(&w.delta, core, proj), mid, up)
	do, dz := d.mixedBack(&w.delta, &g.delta, dMixed, core, proj)

	window, start := d.empty(x.Graph(), l.Groups)
	c := newChunks(x.Graph(), l.Groups, l.Length, l.Segment)
	t := d.tokens(&w.delta, proj, l.Groups, l.Length, window, l.Segment, nil)
	r := newDeltaRule(c, t.each(c.split))
	var states *Node
	if len(kept) > 4 {
		states = kept[4]
	} else {
		_, states = r.overRows(t.deltaIn, start, c, l.Use, true)
	}
	do = Reshape(do, l.Groups, l.Length, d.Linear.ValueHeads, d.Linear.ValueDim)
	by := r.gradients(t.deltaIn, states, do, c, l.Use)
	du, dHeads := d.tokensBack(t, &w.delta, &g.delta, by, l.Segment)
	n := rows(x)
	dProj := cast(Concatenate([]*Node{Reshape(du, n, dim(du, 2)), dz, Reshape(dHeads, n, dim(dHeads, 2))}, 1), d.Compute)
	dx, dw, _ := d.projectBack(mapQKV, w, g, dProj, d.norm(x, w.norm1, nil), w.qkv, false)
	g.qkv = dw
	dx, g.norm1, _ = d.normBack(dx, x, w.norm1)
	return Add(dMid, dx), d.flatten(g)
}

func (d *deltaNet) Cache() []CacheArray {
	x := d.Linear
	return []CacheArray{
		{Dims: []int{x.Kernel - 1, d.Linear.Channels()}},
		{Dims: []int{x.ValueHeads, x.KeyDim, x.ValueDim}, DType: dtypes.Float32},
	}
}

func (d *deltaNet) Append(weights []*Node, x, _, _ *Node, past *Past, fresh *Node, use *StepKernels) (*Node, []*Node) {
	n, length := dim(fresh, 0), dim(fresh, 1)
	window := past.Prefix[0]
	w, x, proj := d.begin(weights, x)
	c := newChunks(x.Graph(), n, length, nil)
	t := d.tokens(&w.delta, proj, n, length, window, nil, fresh)
	o, _, state := newDeltaRule(c, t.each(c.split)).forward(past.Prefix[1])
	o = c.join(o)
	use.rule(append(t.list(), c.segment, past.Prefix[1]), o, state)
	mixed := d.mixed(&w.delta, d.flat(o), proj)
	y, _, _ := d.finish(w, x, mixed, mixed, &Layout{Use: use})
	u := Reshape(columns(proj, 0, d.Linear.Channels()), n, length, d.Linear.Channels())
	return y, []*Node{lastReal(Concatenate([]*Node{window, u}, 1), fresh), state}
}

// lastReal returns the entries of x [rows, before + length, channels] that precede the first token of a row which is
// not fresh: as many as before.
func lastReal(x, fresh *Node) *Node {
	g, n, all, before := x.Graph(), dim(x, 0), dim(x, 1), dim(x, 1)-dim(fresh, 1)
	at := shape(dtypes.Int32, n, before)
	count := ReduceAndKeep(ConvertDType(fresh, dtypes.Int32), ReduceSum, 1)
	index := Add(Add(MulScalar(Iota(g, at, 0), float64(all)), Iota(g, at, 1)), BroadcastToShape(count, at))
	return Reshape(takeRows(Reshape(x, n*all, dim(x, 2)), Reshape(index, n*before)), n, before, dim(x, 2))
}

func (d *deltaNet) Step(weights []*Node, x, _, _ *Node, past *Past, use *StepKernels) (*Node, []*Node) {
	n := rows(x)
	window := past.Prefix[0]
	w, x, proj := d.begin(weights, x)
	t := d.tokens(&w.delta, proj, n, 1, window, nil, nil)
	one := func(x *Node) *Node { return Squeeze(x, 1) }
	in := t.each(one)
	o, state := deltaStep(in, past.Prefix[1])
	state = past.Keep(1, state)
	use.Delta(in, past.Live, past.Prefix[1], o, state)
	mixed := d.mixed(&w.delta, cast(Reshape(o, n, d.values()), d.Compute), proj)
	y, _, _ := d.finish(w, x, mixed, mixed, &Layout{})
	u := Reshape(columns(proj, 0, d.Linear.Channels()), n, 1, d.Linear.Channels())
	return y, []*Node{past.Keep(0, Slice(Concatenate([]*Node{window, u}, 1), AxisRange(), AxisRange(1))), state}
}

// Floats counts projections, the rule's outputs, the residual and feed-forward, and the states before chunks.
func (d *deltaNet) Floats(tokens, groups, length int) (main, again int64) {
	x := d.Linear
	main = int64(tokens) * int64(d.Linear.Channels()+2*d.values()+2*x.ValueHeads+d.Hidden+2*d.FF)
	chunks := int64(groups) * int64((length+deltaChunk-1)/deltaChunk)
	return main, chunks * int64(x.ValueHeads*x.KeyDim*x.ValueDim)
}

// FLOPs counts the products with the state, of which the rule needs three, and those inside chunks.
func (d *deltaNet) FLOPs(p Pass) FLOPs {
	x, tokens := d.Linear, int64(p.Rows)*int64(p.Tokens)*int64(d.Linear.ValueHeads)
	f := FLOPs{Model: 6 * tokens * int64(x.KeyDim*x.ValueDim)}
	f.Hardware = f.Model + 2*tokens*deltaChunk*int64(3*x.KeyDim+2*x.ValueDim+8*deltaChunk)
	if p.Tokens == 1 {
		f.Hardware = f.Model
	}
	if !p.Train {
		return f
	}
	again := f.Hardware // of what is inside chunks
	f = FLOPs{3 * f.Model, 3*f.Hardware + again}
	if p.BlocksAgain {
		f.Hardware += again
	}
	return f
}

// Work counts products with weights, and the rule, whose small products take longer.
func (d *deltaNet) Work(int) float64 {
	x := d.Linear
	weights := d.Hidden*(d.Linear.Channels()+2*d.values()+2*x.ValueHeads) + 3*d.Hidden*d.FF
	return float64(weights) + 6*float64(x.ValueHeads*x.KeyDim*x.ValueDim)
}
