package vlm

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
)

// genWeights are the weights of a whole model as inputs of one program.
type genWeights struct {
	table  *Node
	layers [][]*Node
	head   model.HeadWeights
}

// genArrays returns the arrays that genWeights reads.
func (n *net) genArrays(w *parts) []*device.Array {
	in := append([]*device.Array{}, w.embed...)
	for _, l := range w.layers {
		in = append(in, l...)
	}
	in = append(in, w.head[0])
	if !n.spec.Tied {
		in = append(in, w.head[1])
	}
	return in
}

func (n *net) genWeights(a *args) genWeights {
	w := genWeights{table: a.one()}
	for _, g := range n.groups.Layers {
		w.layers = append(w.layers, a.next(len(g.Params)))
	}
	w.head.Norm, w.head.Table = a.one(), w.table
	if !n.spec.Tied {
		w.head.Table = a.one()
	}
	return w
}

// sampleTokens applies the head to hidden states [rows, hidden] and samples. It never samples
// a placeholder.
func (n *net) sampleTokens(w genWeights, x *Node, s model.Sampler, seeds, count, params, forced *Node) (id, logProb *Node) {
	h := model.Head{Eps: n.cfg.Text.Eps, Tokens: true}
	return s.Sample(h.Logits(w.head, x), seeds, count, params, forced, n.cfg.Placeholders())
}

// appendTokens: weights, tokens [rows·t], pos [rows·t,3], fresh [rows,t] bool, last [m]
// with the index in tokens for each sample, sampling inputs, [images, imageRow,
// deepstack…], then, unless open, per layer the prefix's and the recent keys and values,
// with allow [rows, slots], recentAllow [rows, recent], at and recentAt.
// → id, log-prob, per layer the prefix's keys and values including all others.
func (n *net) appendTokens(open, images bool, slots int, s model.Sampler) *device.Program {
	name := fmt.Sprintf("append open=%v images=%v slots=%d %+v", open, images, slots, s)
	return n.program(name, func(in []*Node) []*Node {
		a := args{in}
		w := n.genWeights(&a)
		tokens, pos, fresh, last := a.one(), a.one(), a.one(), a.one()
		seeds, count, params := a.one(), a.one(), a.one()
		rows, t := fresh.Shape().Dimensions[0], fresh.Shape().Dimensions[1]
		var pics, picRow *Node
		var deep []*Node
		if images {
			pics, picRow = a.one(), a.one()
			deep = a.next(len(n.cfg.Vision.Deepstack))
		}
		x := model.EmbedForward(w.table, tokens, pics, picRow, n.compute)
		cos, sin := n.cfg.Text.Angles(pos)
		cache := newCacheIn(n, &a, open)
		out := []*Node{nil, nil}
		for i, lw := range w.layers {
			var k, v *Node
			x, k, v = n.text.Append(lw, x, cos, sin, t, cache.past(i), fresh)
			if i < len(deep) {
				x = model.AddRows(x, deep[i], picRow)
			}
			out = append(out, cache.extend(i, k, v, rows, slots)...)
		}
		out[0], out[1] = n.sampleTokens(w, model.TakeRows(x, last), s, seeds, count, params, nil)
		return out
	})
}

// cacheIn is the cache as inputs of a program.
type cacheIn struct {
	net                *net
	open               bool
	k, v, rk, rv       []*Node
	allow, recentAllow *Node
	at, recentAt       *Node
}

func newCacheIn(n *net, a *args, open bool) *cacheIn {
	c := &cacheIn{net: n, open: open}
	if open {
		return c
	}
	c.readCache(a)
	c.at, c.recentAt = a.one(), a.one()
	return c
}

func (c *cacheIn) readCache(a *args) {
	l := len(c.net.groups.Layers)
	c.k, c.v, c.rk, c.rv = a.next(l), a.next(l), a.next(l), a.next(l)
	c.allow, c.recentAllow = a.one(), a.one()
}

func (c *cacheIn) past(i int) []model.CacheSegment {
	if c.open {
		return nil
	}
	return []model.CacheSegment{{K: c.k[i], V: c.v[i], Allow: c.allow}, {K: c.rk[i], V: c.rv[i], Allow: c.recentAllow}}
}

// extend writes the recent segment at slot at and the new keys and values at slot
// recentAt, or, if open, into a new cache from slot 0 on.
func (c *cacheIn) extend(i int, k, v *Node, rows, slots int) []*Node {
	pure := c.net.dev.PureGo()
	one := func(old, recent, fresh *Node) *Node {
		if !c.open {
			return model.Write(model.Write(old, recent, c.at, pure), fresh, c.recentAt, pure)
		}
		return lengthened(fresh, slots)
	}
	if c.open {
		return []*Node{one(nil, nil, k), one(nil, nil, v)}
	}
	return []*Node{one(c.k[i], c.rk[i], k), one(c.v[i], c.rv[i], v)}
}

// Columns of the int32 numbers [rows, nowColumns] that a decoding step reads: the token and
// its position, the number of tokens of the response, the forced next token or −1, the
// recent slot to write, which is the same for all rows, and 1 for unfinished rows, else 0.
const (
	nowToken = iota
	nowPosition
	nowCount   = nowPosition + 3
	nowForced  = nowCount + 1
	nowSlot    = nowForced + 1
	nowLive    = nowSlot + 1
	nowColumns = nowLive + 1
)

// step: weights, now, seeds, sampling parameters, per layer the prefix's and the
// recent keys and values, allow, recentAllow → id, log-prob, per layer recent keys, values.
func (n *net) step(s model.Sampler) *device.Program {
	return n.fused(fmt.Sprintf("step %+v", s), func(in []*Node) ([]*Node, []device.Kernel) {
		p := n.stepInputs(in)
		id, logProb, cache, kernels := p.next(s, p.column(nowToken), nil)
		return append([]*Node{id, logProb}, cache...), kernels
	})
}

// steps is step for several tokens, in a loop on the device that feeds each sampled token
// to the next iteration: ids and log-probs [rows, tokens]. The slots from nowSlot on must
// be free. No token is forced.
func (n *net) steps(s model.Sampler, tokens int) *device.Program {
	return n.looped(fmt.Sprintf("%d steps %+v", tokens, s), func(in []*Node) ([]*Node, []device.Kernel, *device.Loop) {
		p := n.stepInputs(in)
		g, rows := in[0].Graph(), p.rows()
		l := device.NewLoop(g, tokens)
		token := l.Carry(p.column(nowToken))
		ids := l.Carry(Zeros(g, shapes.Make(dtypes.Int32, rows, tokens)))
		logProbs := l.Carry(Zeros(g, shapes.Make(dtypes.Float32, rows, tokens)))
		var recent []*device.Carried
		for _, x := range [][]*Node{p.cache.rk, p.cache.rv} {
			for i := range x {
				c := l.Carry(x[i])
				recent, x[i] = append(recent, c), c.Now
			}
		}
		id, logProb, cache, kernels := p.next(s, token.Now, l.Index)
		token.Next = id
		store := func(c *device.Carried, x *Node) {
			c.Next = DynamicUpdateSlice(c.Now, Reshape(x, rows, 1), []*Node{Const(g, int32(0)), l.Index})
		}
		store(ids, id)
		store(logProbs, logProb)
		out := []*Node{ids.End, logProbs.End}
		half := len(recent) / 2
		for i := range half {
			k, v := recent[i], recent[half+i]
			k.Next, v.Next = cache[2*i], cache[2*i+1]
			out = append(out, k.End, v.End)
		}
		return out, kernels, l
	})
}

// stepIn is the input of a decoding step's graph.
type stepIn struct {
	net                *net
	w                  genWeights
	now, seeds, params *Node
	cache              *cacheIn
}

func (n *net) stepInputs(in []*Node) *stepIn {
	a := args{in}
	p := &stepIn{net: n, w: n.genWeights(&a)}
	p.now, p.seeds, p.params = a.one(), a.one(), a.one()
	p.cache = &cacheIn{net: n}
	p.cache.readCache(&a)
	p.cache.at = Reshape(Slice(p.now, AxisRange(0, 1), AxisRange(nowSlot, nowSlot+1)))
	return p
}

func (p *stepIn) rows() int { return p.now.Shape().Dimensions[0] }

func (p *stepIn) column(k int) *Node {
	return Reshape(Slice(p.now, AxisRange(), AxisRange(k, k+1)), p.rows())
}

// next feeds the tokens and samples the next ones. index is the number of tokens that were
// fed since now was made; nil is 0.
func (p *stepIn) next(s model.Sampler, tokens, index *Node) (id, logProb *Node, recent []*Node, kernels model.StepKernels) {
	n := p.net
	pos, count, forced := Slice(p.now, AxisRange(), AxisRange(nowPosition, nowPosition+3)), p.column(nowCount), p.column(nowForced)
	if index != nil {
		pos, count = Add(pos, index), Add(count, index)
		p.advanceCache(index)
	}
	x := model.EmbedForward(p.w.table, tokens, nil, nil, n.compute)
	cos, sin := n.cfg.Text.Angles(pos)
	for i, lw := range p.w.layers {
		past := p.cache.past(i)
		y, k, v := n.text.Step(lw, x, cos, sin, past[0], past[1], p.cache.at, n.dev.PureGo())
		kernels.Block(n.text, lw, x, cos, sin, past[0], past[1], p.cache.at, y, k, v)
		x = y
		recent = append(recent, k, v)
	}
	id, logProb = n.sampleTokens(p.w, x, s, p.seeds, ConvertDType(count, dtypes.Uint32), p.params, forced)
	return id, logProb, recent, kernels
}

// advanceCache sets the slot to write, and allows unfinished rows the slots after the first.
func (p *stepIn) advanceCache(index *Node) {
	c := p.cache
	dims := c.recentAllow.Shape().Dimensions
	first := BroadcastToDims(c.at, dims...)
	c.at = Add(c.at, index)
	slot := Iota(index.Graph(), shapes.Make(dtypes.Int32, dims...), 1)
	live := Reshape(p.column(nowLive), dims[0], 1)
	live = BroadcastToDims(GreaterThan(live, ZerosLike(live)), dims...)
	written := LogicalAnd(GreaterThan(slot, first), LessOrEqual(slot, BroadcastToDims(c.at, dims...)))
	c.recentAllow = LogicalOr(c.recentAllow, LogicalAnd(live, written))
}

// flush: prefixes, recents (keys then values of each layer), at → prefixes with
// the recents written at that slot.
func (n *net) flush() *device.Program {
	return n.program("flush", func(in []*Node) []*Node {
		at := in[len(in)-1]
		half := (len(in) - 1) / 2
		out := make([]*Node, half)
		for i := range half {
			out[i] = model.Write(in[i], in[half+i], at, n.dev.PureGo())
		}
		return out
	})
}

// selectRows: arrays, index [m] → the rows of each array at the index.
func (n *net) selectRows() *device.Program {
	return n.program("select rows", func(in []*Node) []*Node {
		index := in[len(in)-1]
		out := make([]*Node, len(in)-1)
		for i, x := range in[:len(in)-1] {
			out[i] = Gather(x, Reshape(index, index.Shape().Size(), 1))
		}
		return out
	})
}

// gatherRows: arrays [from, heads, length, d], if more is set as many [rows, heads, slots, d],
// index [rows] → rows of the former at the index, padded to slots; where the index is −1,
// rows of the latter.
func (n *net) gatherRows(slots int, more bool) *device.Program {
	return n.program(fmt.Sprintf("gather rows %d %v", slots, more), func(in []*Node) []*Node {
		a, index := args{in[:len(in)-1]}, in[len(in)-1]
		half := len(a.in)
		if more {
			half /= 2
		}
		from := a.next(half)
		at := Reshape(Max(index, ZerosLike(index)), index.Shape().Size(), 1)
		out := make([]*Node, half)
		for i, x := range from {
			out[i] = lengthened(Gather(x, at), slots)
			if more {
				here := Reshape(GreaterOrEqual(index, ZerosLike(index)), index.Shape().Size(), 1, 1, 1)
				out[i] = Where(BroadcastToShape(here, out[i].Shape()), out[i], a.one())
			}
		}
		return out
	})
}

// lengthened pads x [rows, heads, length, d] with zeros to slots slots.
func lengthened(x *Node, slots int) *Node {
	d := x.Shape().Dimensions
	if d[2] == slots {
		return x
	}
	pad := Zeros(x.Graph(), shapes.Make(x.DType(), d[0], d[1], slots-d[2], d[3]))
	return Concatenate([]*Node{x, pad}, 2)
}

// grow: arrays [rows, heads, length, d] → the same with slots slots.
func (n *net) grow(slots int) *device.Program {
	return n.program(fmt.Sprintf("grow %d", slots), func(in []*Node) []*Node {
		out := make([]*Node, len(in))
		for i, x := range in {
			out[i] = lengthened(x, slots)
		}
		return out
	})
}

// emptyCache returns zeroed keys and values: one array each per layer.
func (n *net) emptyCache(rows, length int) ([]*device.Array, error) {
	t := &n.cfg.Text
	dims := []int{rows, t.KVHeads, length, t.HeadDim}
	p := n.program(fmt.Sprintf("zeros %v", dims), func(in []*Node) []*Node {
		return []*Node{Mul(ConvertDType(in[0], n.compute), Zeros(in[0].Graph(), shapes.Make(n.compute, dims...)))}
	})
	zero, err := device.Scalar(n.dev, float32(0))
	if err != nil {
		return nil, err
	}
	defer zero.Free()
	out := make([]*device.Array, 2*t.Layers)
	for i := range out {
		a, err := p.Run([]*device.Array{zero})
		if err != nil {
			device.FreeAll(out...)
			return nil, err
		}
		out[i] = a[0]
	}
	return out, nil
}
