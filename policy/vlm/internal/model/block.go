package model

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
)

// Block is the shape of one transformer block: pre-norm attention and
// feed-forward with residuals. Decoder layers and both vision towers are
// blocks; they differ only in these fields. As a Layer its cache has the keys and values.
type Block struct {
	Hidden, Heads, KVHeads, HeadDim, FF int
	Eps                                 float64
	LayerNorm                           bool // with bias; else RMSNorm
	GELU                                bool // fc2(gelu_tanh(fc1 x)); else SwiGLU
	QKVBias, OutBias, MLPBias           bool
	QKNorm                              bool // RMSNorm on each head of q and k
	PlusOne                             bool // RMSNorms multiply by 1 + their weights
	Gated                               bool // σ of a gate beside each head's query multiplies the attention's output
	Causal                              bool
	Compute                             dtypes.DType // of activations and products
	Adapters                            *Adapters    // nil without
	Linear                              *Linear      // a gated delta rule instead of attention; nil without

	params func(base string) []Param // see Layer.Params
}

// blockWeights are the parameters of a block, in the order of Block.Params.
// Absent ones are nil.
type blockWeights struct {
	norm1, norm1b *Node
	qkv, qkvB     *Node // rows: heads of q (with a gate, of query and gate), then k, then v; or see deltaNet
	qNorm, kNorm  *Node
	delta         deltaWeights
	out, outB     *Node
	norm2, norm2b *Node
	up, upB       *Node // SwiGLU: rows of gate, then up; GELU: fc1
	down, downB   *Node
	adapters      [blockMapCount][]adapter
}

// slots lists the fields that this block uses, in parameter order.
func (b *Block) slots(w *blockWeights) []**Node {
	s := []**Node{&w.norm1}
	add := func(on bool, f **Node) {
		if on {
			s = append(s, f)
		}
	}
	add(b.LayerNorm, &w.norm1b)
	add(true, &w.qkv)
	add(b.QKVBias, &w.qkvB)
	add(b.QKNorm, &w.qNorm)
	add(b.QKNorm, &w.kNorm)
	if b.Linear != nil {
		s = append(s, &w.delta.conv, &w.delta.decay, &w.delta.step, &w.delta.norm)
	}
	add(true, &w.out)
	add(b.OutBias, &w.outB)
	add(true, &w.norm2)
	add(b.LayerNorm, &w.norm2b)
	add(true, &w.up)
	add(b.MLPBias, &w.upB)
	add(true, &w.down)
	add(b.MLPBias, &w.downB)
	return b.Adapters.slots(w, s)
}

func (b *Block) weights(in []*Node) *blockWeights {
	w := &blockWeights{}
	for i, f := range b.slots(w) {
		*f = in[i]
	}
	return w
}

func (b *Block) flatten(w *blockWeights) []*Node {
	var out []*Node
	for _, f := range b.slots(w) {
		out = append(out, *f)
	}
	return out
}

// Layout divides a flat matrix of tokens [tokens, …] into groups; attention is
// inside a group.
type Layout struct {
	Groups, Length int // tokens of a group, padding included
	// Index [groups·length] and Inverse [tokens] map group positions to tokens and
	// back when groups differ in length. An index equal to the number of tokens is
	// a padding position; an inverse equal to the number of positions is a padding
	// token. Both are nil when the groups are contiguous and equally long.
	Index, Inverse *Node
	// Segment [groups, length] int32 restricts attention: tokens attend only to
	// tokens with the same segment. nil allows attention in the whole group.
	Segment *Node
	// Prefixes means that the lower 16 bits of Segment are the token's segment, and those above
	// them, minus 1, another segment to which it attends.
	Prefixes bool
	// Fresh [groups, length] bool marks the tokens whose outputs are read. nil is all.
	Fresh *Node
	// Ends [groups] are the tokens of attend whose outputs are wanted, one of each group. nil is all.
	Ends *Node

	Use   *StepKernels // collects kernel calls; nil for none
	Kept  bool         // the caller reads Kept.Main
	Again bool         // the caller reads what a backward pass can compute again, such as states and attention's weights
}

// split reshapes [tokens, heads, headDim] to [groups, heads, length, headDim].
func (l *Layout) split(x *Node) *Node {
	heads, hd := dim(x, 1), dim(x, 2)
	if l.Index != nil {
		x = takeRowsOrZero(Reshape(x, dim(x, 0), heads*hd), l.Index)
	}
	return TransposeAllDims(Reshape(x, l.Groups, l.Length, heads, hd), 0, 2, 1, 3)
}

// join is the inverse of split: [groups, heads, length, headDim] to [tokens, heads, headDim].
func (l *Layout) join(x *Node) *Node {
	heads, hd := dim(x, 1), dim(x, 3)
	x = TransposeAllDims(x, 0, 2, 1, 3)
	if l.Inverse == nil {
		return Reshape(x, l.Groups*l.Length, heads, hd)
	}
	x = takeRowsOrZero(Reshape(x, l.Groups*l.Length, heads*hd), l.Inverse)
	return Reshape(x, dim(x, 0), heads, hd)
}

// masked replaces a score where attention is not allowed. It is finite so that a
// row that may attend to nothing stays finite.
const masked = -1e9

// attentionMask returns [groups, 1, length, length] bool, or nil when all is allowed.
func (l *Layout) attentionMask(g *Graph, causal bool) *Node {
	var ok *Node
	if l.Segment != nil {
		query, key := Reshape(l.Segment, l.Groups, l.Length, 1), Reshape(l.Segment, l.Groups, 1, l.Length)
		if l.Prefixes {
			own := Const(g, int32(1<<16-1))
			prefix := SubScalar(BitwiseShiftRightArithmeticScalar(query, int32(16)), 1)
			query, key = BitwiseAnd(query, own), BitwiseAnd(key, own)
			ok = LogicalOr(Equal(query, key), Equal(prefix, key))
		} else {
			ok = Equal(query, key)
		}
	}
	if causal {
		if past := before(g, l.Length); ok == nil {
			ok = past
		} else {
			ok = LogicalAnd(ok, BroadcastToShape(past, ok.Shape()))
		}
	}
	if ok == nil {
		return nil
	}
	return Reshape(ok, dim(ok, 0), 1, l.Length, l.Length)
}

// probs is softmax(q·kᵀ/√d) with q [G, KV, R·L, d] (R query heads share a key
// head) and k [G, KV, L, d], where ok allows it, see attentionMask; the result is [G, KV, R·L, L].
func (b *Block) probs(q, k, ok *Node) *Node {
	scores := MulScalar(f32(DotGeneral(q, []int{3}, []int{0, 1}, k, []int{3}, []int{0, 1})),
		1/math.Sqrt(float64(b.HeadDim)))
	if ok != nil {
		g, kv, length := dim(q, 0), dim(q, 1), dim(k, 2)
		s := Reshape(scores, g, kv*dim(q, 2)/length, length, length)
		ok = BroadcastToShape(ok, s.Shape())
		s = Where(ok, s, Scalar(q.Graph(), dtypes.Float32, masked))
		scores = Reshape(s, scores.Shape().Dimensions...)
	}
	return cast(softmax(scores), q.DType())
}

// groupHeads reshapes [G, heads, L, d] to [G, KV, R·L, d]; unfold is its inverse.
func (b *Block) groupHeads(x *Node) *Node {
	g, l, d := dim(x, 0), dim(x, 2), dim(x, 3)
	return Reshape(x, g, b.KVHeads, b.Heads/b.KVHeads*l, d)
}

func (b *Block) ungroupHeads(x *Node) *Node {
	g, d := dim(x, 0), dim(x, 3)
	return Reshape(x, g, b.Heads, dim(x, 2)*b.KVHeads/b.Heads, d)
}

func (b *Block) norm(x, w, bias *Node) *Node {
	if b.LayerNorm {
		return layerNorm(x, w, bias, b.Eps)
	}
	return rmsNorm(x, w, b.Eps, b.PlusOne)
}

func (b *Block) normBack(dy, x, w *Node) (dx, dw, db *Node) {
	if b.LayerNorm {
		return layerNormBack(dy, x, w, b.Eps)
	}
	dx, dw = rmsNormBack(dy, x, w, b.Eps, b.PlusOne)
	return dx, dw, nil
}

// heads returns q, k, v and the gate (nil without) of the tokens, each [tokens, heads, headDim], in their projection.
func (b *Block) heads(qkv *Node) (q, k, v, gate *Node) {
	n := rows(qkv)
	nk := b.KVHeads * b.HeadDim
	nq := dim(qkv, 1) - 2*nk
	q = Reshape(columns(qkv, 0, nq), n, b.Heads, nq/b.Heads)
	if b.Gated {
		q, gate = columns(q, 0, b.HeadDim), columns(q, b.HeadDim, 2*b.HeadDim)
	}
	k = Reshape(columns(qkv, nq, nq+nk), n, b.KVHeads, b.HeadDim)
	v = Reshape(columns(qkv, nq+nk, nq+2*nk), n, b.KVHeads, b.HeadDim)
	return q, k, v, gate
}

// gated multiplies the attention's output [tokens, heads·headDim] by σ of the gate, if there is one.
func gated(attn, gate *Node) *Node {
	if gate == nil {
		return attn
	}
	return Mul(attn, Sigmoid(Reshape(gate, attn.Shape().Dimensions...)))
}

// normAndRotate applies the norms of q and k, if the block has them, and the rotary
// positions.
func (b *Block) normAndRotate(w *blockWeights, q, k, cos, sin *Node) (*Node, *Node) {
	if b.QKNorm {
		q, k = rmsNorm(q, w.qNorm, b.Eps, b.PlusOne), rmsNorm(k, w.kNorm, b.Eps, b.PlusOne)
	}
	return rotate(q, cos, sin), rotate(k, cos, sin)
}

// finish is the block from the output of attention on, before its projection. x is the block's input, mid the sum
// after attention and up that before the activation. A kernel may read from instead of mixed.
func (b *Block) finish(w *blockWeights, x, mixed, from *Node, l *Layout) (y, mid, up *Node) {
	mid = Add(x, b.project(mapOut, w, mixed, w.out, w.outB))
	up = b.project(mapUp, w, b.norm(mid, w.norm2, w.norm2b), w.up, w.upB)
	y = Add(mid, b.project(mapDown, w, b.activate(up), w.down, w.downB))
	if l.Kept {
		l.Use.closing(b, w, x, from, nil, y, mid, up)
	} else {
		l.Use.closing(b, w, x, from, l.Fresh, y)
	}
	return y, mid, up
}

// finishBack maps the gradient of finish's y to those of mid and mixed, and stores those of the weights in g.
func (b *Block) finishBack(w, g *blockWeights, dy, mixed, mid, up *Node) (dMid, dMixed *Node) {
	var d *Node
	d, g.down, g.downB = b.projectBack(mapDown, w, g, dy, b.activate(up), w.down, b.MLPBias)
	d = b.activateBack(d, up)
	d, g.up, g.upB = b.projectBack(mapUp, w, g, d, b.norm(mid, w.norm2, w.norm2b), w.up, b.MLPBias)
	d, g.norm2, g.norm2b = b.normBack(d, mid, w.norm2)
	dMid = Add(dy, d)
	dMixed, g.out, g.outB = b.projectBack(mapOut, w, g, dMid, mixed, w.out, b.OutBias)
	return dMid, dMixed
}

func (b *Block) activate(up *Node) *Node {
	if b.GELU {
		return geluTanh(up)
	}
	return Mul(silu(columns(up, 0, b.FF)), columns(up, b.FF, 2*b.FF))
}

func (b *Block) activateBack(dy, up *Node) *Node {
	if b.GELU {
		return Mul(dy, geluTanhBack(up))
	}
	gate, lin := columns(up, 0, b.FF), columns(up, b.FF, 2*b.FF)
	return Concatenate([]*Node{Mul(Mul(dy, lin), siluBack(gate)), Mul(dy, silu(gate))}, 1)
}

// attend is the block on x [tokens, hidden] with attention by a function, which gets the queries in groups of heads,
// keys and values of groups of tokens. kept is Kept.Main.
func (b *Block) attend(
	weights []*Node, x, cos, sin *Node, l *Layout, attention func(q, k, v *Node) *Node,
) (y *Node, kept []*Node) {
	w := b.weights(weights)
	x = cast(x, b.Compute)
	qkv := b.project(mapQKV, w, b.norm(x, w.norm1, w.norm1b), w.qkv, w.qkvB)
	q, k, v, gate := b.heads(qkv)
	q, k = b.normAndRotate(w, q, k, cos, sin)
	q, k, v = b.groupHeads(l.split(q)), l.split(k), l.split(v)
	l.Use.opening(b, w, l, x, cos, sin, q, k, v, qkv)
	if ends := l.Ends; ends != nil {
		q, x, l = b.queriesAt(q, l), takeRows(x, ends), &Layout{Groups: l.Groups, Length: 1, Use: l.Use}
		if gate != nil {
			gate = takeRows(gate, ends)
		}
	}
	o := attention(q, k, v)
	attn := Reshape(l.join(b.ungroupHeads(o)), rows(x), b.Heads*b.HeadDim)
	mixed, from := gated(attn, gate), o
	if gate != nil || l.Index != nil {
		from = mixed
	}
	y, mid, up := b.finish(w, x, mixed, from, l)
	return y, []*Node{qkv, attn, mid, up}
}

// queriesAt returns the queries [groups, KV, R, d] of the layout's ends among q [groups, KV, R·length, d].
func (b *Block) queriesAt(q *Node, l *Layout) *Node {
	g, index := q.Graph(), shape(dtypes.Int32, l.Groups, b.Heads)
	group, head := MulScalar(Iota(g, index, 0), (b.Heads-1)*l.Length), MulScalar(Iota(g, index, 1), l.Length)
	at := Add(BroadcastToDims(Reshape(l.Ends, l.Groups, 1), index.Dimensions...), Add(group, head))
	one := takeRows(Reshape(q, l.Groups*b.Heads*l.Length, b.HeadDim), at)
	return Reshape(one, l.Groups, b.KVHeads, b.Heads/b.KVHeads, b.HeadDim)
}

// Forward is that of Layer. What the backward pass can compute again are the attention probabilities.
func (b *Block) Forward(weights []*Node, x, cos, sin *Node, l *Layout) (*Node, Kept) {
	var p *Node
	y, kept := b.attend(weights, x, cos, sin, l, func(q, k, v *Node) *Node {
		ok := l.attentionMask(q.Graph(), b.Causal)
		p = b.probs(q, k, ok)
		if ok != nil {
			ok = BroadcastToDims(Reshape(ok, dim(ok, 0), l.Length, l.Length), l.Groups, l.Length, l.Length)
		}
		o := DotGeneral(p, []int{3}, []int{0, 1}, v, []int{2}, []int{0, 1})
		if l.Use != nil && !l.Again {
			l.Use.attention(q, k, v, ok, o)
		}
		return o
	})
	return y, Kept{Main: kept, Again: []*Node{p}}
}

// Backward is that of Layer.
func (b *Block) Backward(
	weights []*Node, x *Node, kept []*Node, cos, sin *Node, l *Layout, dy *Node,
) (*Node, []*Node) {
	w, g := b.weights(weights), &blockWeights{}
	b.slots(g) // allocates the adapters' entries
	x, dy = cast(x, b.Compute), cast(dy, b.Compute)
	n := rows(x)
	qkv, attn, mid, up := kept[0], kept[1], kept[2], kept[3]
	q, k, v, gate := b.heads(qkv)
	dMid, d := b.finishBack(w, g, dy, gated(attn, gate), mid, up)
	var dGate *Node
	if b.Gated {
		s := Sigmoid(Reshape(gate, n, b.Heads*b.HeadDim))
		dGate = Reshape(Mul(Mul(d, attn), Mul(s, OneMinus(s))), n, b.Heads, b.HeadDim)
		d = Mul(d, s)
	}
	rq, rk := b.normAndRotate(w, q, k, cos, sin)
	a := attended{q: b.groupHeads(l.split(rq)), k: l.split(rk), v: l.split(v), out: Reshape(attn, n, b.Heads, b.HeadDim)}
	if len(kept) > 4 {
		a.probs = kept[4]
	} else {
		a.probs = b.probs(a.q, a.k, l.attentionMask(x.Graph(), b.Causal))
	}
	dq, dk, dv := b.attendBack(&a, l, Reshape(d, n, b.Heads, b.HeadDim))
	negSin := Neg(sin)
	dq, dk = rotate(dq, cos, negSin), rotate(dk, cos, negSin)
	if b.QKNorm {
		dq, g.qNorm = rmsNormBack(dq, q, w.qNorm, b.Eps, b.PlusOne)
		dk, g.kNorm = rmsNormBack(dk, k, w.kNorm, b.Eps, b.PlusOne)
	}
	if b.Gated {
		dq = Concatenate([]*Node{dq, dGate}, 2)
	}
	flat := func(x *Node) *Node { return Reshape(x, n, dim(x, 1)*dim(x, 2)) }
	dqkv := Concatenate([]*Node{flat(dq), flat(dk), flat(dv)}, 1)
	d, g.qkv, g.qkvB = b.projectBack(mapQKV, w, g, dqkv, b.norm(x, w.norm1, w.norm1b), w.qkv, b.QKVBias)
	d, g.norm1, g.norm1b = b.normBack(d, x, w.norm1)
	return Add(dMid, d), b.flatten(g)
}

// attended is what attention read and made: q, k and v as it got them, its probabilities, and its output [tokens,
// heads, headDim].
type attended struct{ q, k, v, probs, out *Node }

// attendBack maps the gradient of the attention's output [tokens, heads,
// headDim] to those of v and of the normalised and rotated q and k.
func (b *Block) attendBack(a *attended, l *Layout, do *Node) (dq, dk, dv *Node) {
	o, do := l.split(a.out), l.split(do)
	// Σ_j P_ij·dP_ij equals Σ_d O_id·dO_id, which is cheaper: d is far below the length.
	inner := b.groupHeads(ReduceAndKeep(Mul(f32(o), f32(do)), ReduceSum, -1))
	do = b.groupHeads(do)
	dv = DotGeneral(a.probs, []int{2}, []int{0, 1}, do, []int{2}, []int{0, 1})
	dp := f32(DotGeneral(do, []int{3}, []int{0, 1}, a.v, []int{3}, []int{0, 1}))
	ds := cast(MulScalar(Mul(f32(a.probs), Sub(dp, inner)), 1/math.Sqrt(float64(b.HeadDim))), b.Compute)
	dq = DotGeneral(ds, []int{3}, []int{0, 1}, a.k, []int{2}, []int{0, 1})
	dk = DotGeneral(ds, []int{2}, []int{0, 1}, a.q, []int{2}, []int{0, 1})
	return l.join(b.ungroupHeads(dq)), l.join(dk), l.join(dv)
}
