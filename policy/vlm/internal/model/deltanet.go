package model

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
)

// deltaNet is a layer with a gated delta rule in place of attention. Of its block's projection qkv the rows are u
// (queries and keys of the key heads, values of the value heads), the gate z of the outputs, and β and the step size
// of each value head. A short causal convolution runs over u. The cache has its last inputs and the state.
type deltaNet struct {
	*Block
	*Linear
}

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
	}, c.linearParams, c.firstLayer(linearAttention)), t.Linear}
}

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
	last := d.Channels() + d.Values()
	in := f32(Reshape(columns(proj, last, dim(proj, 1)), groups, length, 2*d.ValueHeads))
	t := &deltaTokens{}
	all := f32(d.inputs(window, proj))
	for j := range d.Kernel {
		back := d.Kernel - 1 - j
		tap := Slice(all, AxisRange(), AxisRange(j, j+length))
		if segment != nil && back > 0 {
			tap = where(sameBefore(segment, back), tap)
		}
		t.taps = append(t.taps, tap)
		t.conv = addTo(t.conv, Mul(tap, d.tap(w, j)))
	}
	y := silu(t.conv)
	keys := d.KeyHeads * d.KeyDim
	for i := range t.raw {
		t.raw[i] = Reshape(columns(y, i*keys, (i+1)*keys), groups, length, d.KeyHeads, d.KeyDim)
	}
	t.q = d.repeat(MulScalar(unit(t.raw[0]), d.queryScale()))
	t.k = d.repeat(unit(t.raw[1]))
	t.v = Reshape(columns(y, 2*keys, d.Channels()), groups, length, d.ValueHeads, d.ValueDim)
	t.beta = Sigmoid(columns(in, 0, d.ValueHeads))
	t.ahead = Add(columns(in, d.ValueHeads, 2*d.ValueHeads), ExpandLeftToRank(w.step, 3))
	t.rate = Neg(Exp(ExpandLeftToRank(w.decay, 3)))
	t.g = Mul(softplus(t.ahead), t.rate)
	if real != nil {
		t.beta, t.g = where(real, t.beta), where(real, t.g)
	}
	return t
}

// inputs are those of the convolution: of the tokens before, window [groups, taps−1, channels], and of the projection.
func (d *deltaNet) inputs(window, proj *Node) *Node {
	u := Reshape(columns(proj, 0, d.Channels()), dim(window, 0), -1, d.Channels())
	return Concatenate([]*Node{cast(window, u.DType()), u}, 1)
}

// tap returns the weights of one tap by channel, rounded to the type of computation as the matrices are.
func (d *deltaNet) tap(w *deltaWeights, j int) *Node {
	conv := f32(cast(w.conv, d.Compute))
	return Reshape(Slice(conv, AxisRange(), AxisRange(), AxisRange(j, j+1)), 1, 1, dim(conv, 0))
}

// sameBefore [groups, length] marks tokens of which the token so many before is of the same segment. Where there is no
// such token it says anything: what the convolution reads there is 0.
func sameBefore(segment *Node, back int) *Node {
	length := dim(segment, 1)
	if back >= length {
		return Equal(segment, segment)
	}
	first := Slice(segment, AxisRange(), AxisRange(0, back))
	before := Slice(segment, AxisRange(), AxisRange(0, length-back))
	return Equal(segment, Concatenate([]*Node{first, before}, 1))
}

// repeat gives every value head its key head, the same for successive ones; sumRepeated is its gradient.
func (d *deltaNet) repeat(x *Node) *Node {
	s, times := x.Shape().Dimensions, d.ValueHeads/d.KeyHeads
	x = BroadcastToDims(ExpandAxes(x, 3), s[0], s[1], s[2], times, s[3])
	return Reshape(x, s[0], s[1], s[2]*times, s[3])
}

func (d *deltaNet) sumRepeated(x *Node) *Node {
	s, times := x.Shape().Dimensions, d.ValueHeads/d.KeyHeads
	return ReduceSum(Reshape(x, s[0], s[1], s[2]/times, times, s[3]), 3)
}

func (d *deltaNet) queryScale() float64 { return 1 / math.Sqrt(float64(d.KeyDim)) }

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
			one = earlier(where(sameBefore(segment, back), one), back)
		}
		du = addTo(du, one)
	}
	g.conv = Concatenate(taps, 2)
	dAhead := Mul(by.g, Mul(t.rate, Sigmoid(t.ahead)))
	g.decay, g.step = sumRows(Mul(by.g, t.g)), sumRows(dAhead)
	dBeta := Mul(by.beta, Mul(t.beta, OneMinus(t.beta)))
	return du, Concatenate([]*Node{dBeta, dAhead}, 2)
}

// earlier moves x [groups, length, …] back in time, with zeros at the end.
func earlier(x *Node, by int) *Node {
	if by >= dim(x, 1) {
		return ZerosLike(x)
	}
	return padded(Slice(x, AxisRange(), AxisRange(by)), by)
}

// gateOf returns the columns of z [tokens, value heads, value] float32.
func (d *deltaNet) gateOf(proj *Node) *Node {
	c := d.Channels()
	return Reshape(f32(columns(proj, c, c+d.Values())), rows(proj), d.ValueHeads, d.ValueDim)
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
	return do, Reshape(dz, rows(proj), d.Values())
}

// empty are a window and a state before the first token.
func (d *deltaNet) empty(g *Graph, groups int) (window, state *Node) {
	return Zeros(g, shape(dtypes.Float32, groups, d.Kernel-1, d.Channels())),
		Zeros(g, shape(dtypes.Float32, groups, d.ValueHeads, d.KeyDim, d.ValueDim))
}

// flat is the rule's output as [tokens, value heads·value] in the type of computation.
func (d *deltaNet) flat(o *Node) *Node {
	return cast(Reshape(o, -1, d.Values()), d.Compute)
}

// begin returns the weights, x in the type of computation, and its projection.
func (d *deltaNet) begin(weights []*Node, x *Node) (w *blockWeights, in, proj *Node) {
	w, in = d.weights(weights), cast(x, d.Compute)
	return w, in, d.project(mapQKV, w, d.norm(in, w.norm1, nil), w.qkv, nil)
}

// rule are the rule and its inputs for the rows of a layout, and the state of zeros before them.
func (d *deltaNet) rule(w *blockWeights, proj *Node, l *Layout) (t *deltaTokens, r *deltaRule, start *Node) {
	window, start := d.empty(proj.Graph(), l.Groups)
	t = d.tokens(&w.delta, proj, l.Groups, l.Length, window, l.Segment, nil)
	return t, newDeltaRule(newChunks(proj.Graph(), l.Groups, l.Length, l.Segment), t.deltaIn), start
}

func (d *deltaNet) Forward(weights []*Node, x, _, _ *Node, l *Layout) (*Node, Kept) {
	w, x, proj := d.begin(weights, x)
	t, r, start := d.rule(w, proj, l)
	o, states := r.overRows(t.deltaIn, start, l.Use, l.Again)
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

	t, r, start := d.rule(w, proj, l)
	var states *Node
	if len(kept) > 4 {
		states = kept[4]
	} else {
		_, states = r.overRows(t.deltaIn, start, l.Use, true)
	}
	do = Reshape(do, l.Groups, l.Length, d.ValueHeads, d.ValueDim)
	by := r.gradients(t.deltaIn, states, do, l.Use)
	du, dHeads := d.tokensBack(t, &w.delta, &g.delta, by, l.Segment)
	n := rows(x)
	dProj := cast(Concatenate([]*Node{Reshape(du, n, -1), dz, Reshape(dHeads, n, -1)}, 1), d.Compute)
	dx, dw, _ := d.projectBack(mapQKV, w, g, dProj, d.norm(x, w.norm1, nil), w.qkv, false)
	g.qkv = dw
	dx, g.norm1, _ = d.normBack(dx, x, w.norm1)
	return Add(dMid, dx), d.flatten(g)
}

func (d *deltaNet) Cache() []CacheArray {
	return []CacheArray{
		{Dims: []int{d.Kernel - 1, d.Channels()}},
		{Dims: []int{d.ValueHeads, d.KeyDim, d.ValueDim}, DType: dtypes.Float32},
	}
}

func (d *deltaNet) Append(
	weights []*Node, x, _, _ *Node, past *Past, fresh, ends *Node, use *StepKernels,
) (*Node, []*Node) {
	n, length := dim(fresh, 0), dim(fresh, 1)
	window := past.Prefix[0]
	w, x, proj := d.begin(weights, x)
	c := newChunks(x.Graph(), n, length, nil)
	t := d.tokens(&w.delta, proj, n, length, window, nil, fresh)
	o, _, state := newDeltaRule(c, t.deltaIn).forward(past.Prefix[1])
	o = c.join(o)
	use.rule(append(t.list(), c.segment, past.Prefix[1]), o, state)
	mixed := d.mixed(&w.delta, d.flat(o), proj)
	l := &Layout{Fresh: fresh, Use: use}
	if ends != nil {
		x, mixed, l.Fresh = takeRows(x, ends), takeRows(mixed, ends), nil
	}
	y, _, _ := d.finish(w, x, mixed, mixed, l)
	return y, []*Node{lastReal(d.inputs(window, proj), fresh), state}
}

// lastReal returns the entries of x [rows, before + length, channels] that precede the first token of a row which is
// not fresh: as many as before.
func lastReal(x, fresh *Node) *Node {
	g, n, all, before := x.Graph(), dim(x, 0), dim(x, 1), dim(x, 1)-dim(fresh, 1)
	at := shape(dtypes.Int32, n, before)
	count := ReduceAndKeep(ConvertDType(fresh, dtypes.Int32), ReduceSum, 1)
	index := Add(Add(MulScalar(Iota(g, at, 0), float64(all)), Iota(g, at, 1)), count)
	return Reshape(takeRows(Reshape(x, n*all, dim(x, 2)), Reshape(index, n*before)), n, before, dim(x, 2))
}

func (d *deltaNet) Step(weights []*Node, x, _, _ *Node, past *Past, use *StepKernels) (*Node, []*Node) {
	n := rows(x)
	window := past.Prefix[0]
	w, x, proj := d.begin(weights, x)
	t := d.tokens(&w.delta, proj, n, 1, window, nil, nil)
	in := t.each(func(x *Node) *Node { return Squeeze(x, 1) })
	o, state := deltaStep(in, past.Prefix[1])
	state = past.Keep(1, state)
	use.Delta(in, past.Live, past.Prefix[1], o, state)
	mixed := d.mixed(&w.delta, d.flat(o), proj)
	y, _, _ := d.finish(w, x, mixed, mixed, &Layout{})
	return y, []*Node{past.Keep(0, Slice(d.inputs(window, proj), AxisRange(), AxisRange(1))), state}
}

// Floats counts projections, the rule's outputs, the residual and feed-forward, and the states before chunks.
func (d *deltaNet) Floats(tokens, groups, length int) (main, again int64) {
	main = int64(tokens) * int64(d.Channels()+2*d.Values()+2*d.ValueHeads+d.Hidden+2*d.FF)
	chunks := int64(groups) * int64((length+deltaChunk-1)/deltaChunk)
	return main, chunks * int64(d.KeyDim*d.Values())
}

// FLOPs counts the products with the state, of which the rule needs three, and those inside chunks.
func (d *deltaNet) FLOPs(p Pass) FLOPs {
	tokens := int64(p.Rows) * int64(p.Tokens) * int64(d.ValueHeads)
	f := FLOPs{Model: 6 * tokens * int64(d.KeyDim*d.ValueDim)}
	f.Hardware = f.Model + 2*tokens*deltaChunk*int64(3*d.KeyDim+2*d.ValueDim+8*deltaChunk)
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
	weights := d.Hidden*(d.Channels()+2*d.Values()+2*d.ValueHeads) + 3*d.Hidden*d.FF
	return float64(weights) + 6*float64(d.KeyDim*d.Values())
}
