package generate

import (
	"fmt"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/net"
)

// Programs are the programs of generation of a net.
type Programs struct {
	*net.Net
	Packed bool // decoding steps read packed weights
}

// genWeights are the weights of a whole model as inputs of one program.
type genWeights struct {
	table  *Node
	layers [][]*Node
	head   model.HeadWeights
}

// genArrays returns the arrays that genWeights reads.
func (n Programs) genArrays(w *net.Parts) []*device.Array {
	in := append([]*device.Array{}, w.Embed...)
	for _, l := range w.Layers {
		in = append(in, l...)
	}
	return append(in, n.headArrays(w)[1:]...)
}

// headArrays returns the arrays that the head reads, the table of tokens first.
func (n Programs) headArrays(w *net.Parts) []*device.Array {
	return append([]*device.Array{w.Embed[0]}, w.Head...)
}

// headWeights are headArrays as nodes, of which the table has been read, which a tied head shares.
func (n Programs) headWeights(a *net.Args, table *Node, tied bool) model.HeadWeights {
	w := model.HeadWeights{Norm: a.One(), Table: table}
	if !tied {
		w.Table = a.One()
	}
	return w
}

func (n Programs) genWeights(a *net.Args, tied bool) genWeights {
	w := genWeights{table: a.One()}
	for _, g := range n.Groups.Layers {
		w.layers = append(w.layers, a.Next(len(g.Params)))
	}
	w.head = n.headWeights(a, w.table, tied)
	return w
}

// sampleTokens applies the head to hidden states [rows, hidden] and samples. It never samples
// a placeholder.
func (n Programs) sampleTokens(
	w model.HeadWeights, x *Node, s model.Sampler, seeds, count, params, forced *Node, kernels *model.StepKernels,
) (id, logProb *Node) {
	h := model.Head{Eps: n.Cfg.Text.Eps, PlusOne: n.Cfg.Text.PlusOne, Tokens: true}
	return s.Sample(h.Logits(w, x), seeds, count, params, forced, n.Cfg.Placeholders(), kernels)
}

// appendTokens: weights, tokens [rows·t], pos [rows·t,3], fresh [rows,t] bool, ends [rows] with the index of each
// row's last token, reads [m] with that of each sample's row, sampling inputs, [images, imageRow, deepstack…], then,
// unless open, the prefix's and the recent arrays of the cache, with allow [rows, slots], recentAllow [rows, recent],
// at and recentAt.
// → id, log-prob, the prefix's arrays including all others.
func (n Programs) appendTokens(open, images bool, slots int, s model.Sampler) *device.Program {
	name := fmt.Sprintf("append open=%v images=%v slots=%d %+v", open, images, slots, s)
	return n.Fused(name, func(in []*Node) ([]*Node, []device.Kernel) {
		a := net.Args{In: in}
		var kernels model.StepKernels
		w := n.genWeights(&a, n.Spec.Tied)
		tokens, pos, fresh, ends, reads := a.One(), a.One(), a.One(), a.One(), a.One()
		seeds, count, params := a.One(), a.One(), a.One()
		rows := fresh.Shape().Dimensions[0]
		var pics, picRow *Node
		var deep []*Node
		if images {
			pics, picRow = a.One(), a.One()
			deep = a.Next(len(n.Cfg.Vision.Deepstack))
		}
		x := model.EmbedForward(w.table, tokens, pics, picRow, n.Compute)
		cos, sin := n.Cfg.Text.Angles(pos)
		cache := newCacheIn(n, &a, open, x.Graph(), rows)
		out := []*Node{nil, nil}
		for i, l := range n.Layers {
			var fresher []*Node
			var at *Node
			if n.endsAt(i) {
				at = ends
			}
			x, fresher = l.Append(w.layers[i], x, cos, sin, cache.past(i), fresh, at, nil)
			if i < len(deep) {
				x = model.AddRows(x, deep[i], picRow)
			}
			out = append(out, cache.extend(i, fresher, slots)...)
		}
		if !n.endsAt(len(n.Layers) - 1) {
			x = model.TakeRows(x, ends)
		}
		out[0], out[1] = n.sampleTokens(w.head, model.TakeRows(x, reads), s, seeds, count, params, nil, &kernels)
		return out, kernels
	})
}

// cacheIn is the cache as inputs of a program.
type cacheIn struct {
	net                Programs
	open               bool
	prefix, recent     []*Node // by array of the cache; of a state, recent is nil
	allow, recentAllow *Node
	at, recentAt       *Node
}

func newCacheIn(n Programs, a *net.Args, open bool, g *Graph, rows int) *cacheIn {
	c := &cacheIn{net: n, open: open}
	if !open {
		c.readCache(a)
		c.at, c.recentAt = a.One(), a.One()
		return c
	}
	c.prefix, c.recent = make([]*Node, len(n.Cache)), make([]*Node, len(n.Cache))
	for i, x := range n.Cache {
		if !x.Slots {
			c.prefix[i] = Zeros(g, shapes.Make(x.Type(n.Compute), x.Shape(rows, 0)...))
		}
	}
	return c
}

func (c *cacheIn) readCache(a *net.Args) {
	c.prefix, c.recent = c.net.readArrays(a)
	c.allow, c.recentAllow = a.One(), a.One()
}

// readArrays reads the prefix and the recent segments, by array of the cache; the latter are nil for states.
func (n Programs) readArrays(a *net.Args) (prefix, recent []*Node) {
	prefix, recent = a.Next(len(n.Cache)), make([]*Node, len(n.Cache))
	for i, x := range n.Cache {
		if x.Slots {
			recent[i] = a.One()
		}
	}
	return slices.Clone(prefix), recent
}

// arraysOf returns the indices of a layer's arrays in the cache.
func (n Programs) arraysOf(layer int) (from, to int) {
	for _, l := range n.Layers[:layer] {
		from += len(l.Cache())
	}
	return from, from + len(n.Layers[layer].Cache())
}

func (c *cacheIn) past(layer int) *model.Past {
	from, to := c.net.arraysOf(layer)
	return &model.Past{Prefix: c.prefix[from:to], Recent: c.recent[from:to], Allow: c.allow, RecentAllow: c.recentAllow,
		At: c.at}
}

// extend writes the recent segment at slot at and a layer's new entries at slot recentAt, or, if
// open, into a new prefix from slot 0 on. States are replaced.
func (c *cacheIn) extend(layer int, fresh []*Node, slots int) []*Node {
	from, _ := c.net.arraysOf(layer)
	out := make([]*Node, len(fresh))
	for i, x := range fresh {
		switch at := from + i; {
		case !c.net.Cache[at].Slots:
			out[i] = x
		case c.open:
			out[i] = lengthened(x, slots)
		default:
			out[i] = model.WriteSlots(model.WriteSlots(c.prefix[at], c.recent[at], c.at), x, c.recentAt)
		}
	}
	return out
}

// Columns of the int32 numbers [rows, nowColumns] that a decoding step reads: the token and
// its position, the number of tokens of the response, the forced next token or −1, the
// recent slot to write, which is the same for all rows, unless they are several positions of each row of the cache, and
// 1 for unfinished rows, else 0.
const (
	nowToken = iota
	nowPosition
	nowCount   = nowPosition + 3
	nowForced  = nowCount + 1
	nowSlot    = nowForced + 1
	nowLive    = nowSlot + 1
	nowColumns = nowLive + 1
)

// step: weights, now, seeds, sampling parameters, the prefix's and the recent arrays of the
// cache, allow, recentAllow → id, log-prob, the cache's arrays: recent segments and states.
func (n Programs) step(s model.Sampler) *device.Program {
	return n.Fused(n.stepName(fmt.Sprintf("step %+v", s)), func(in []*Node) ([]*Node, []device.Kernel) {
		p := n.stepInputs(in)
		id, logProb, cache, kernels := p.next(s, p.column(nowToken), nil)
		return append([]*Node{id, logProb}, cache...), kernels
	})
}

// steps is step for several tokens, in a loop on the device that feeds each sampled token
// to the next iteration: ids and log-probs [rows, tokens]. The slots from nowSlot on must
// be free. No token is forced. The cache must not have states: a row ends between tokens.
func (n Programs) steps(s model.Sampler, tokens int) *device.Program {
	name := n.stepName(fmt.Sprintf("%d steps %+v", tokens, s))
	return n.Fused(name, func(in []*Node) (_ []*Node, kernels []device.Kernel) {
		p := n.stepInputs(in)
		g, rows, recent := in[0].Graph(), p.rows(), len(p.cache.recent)
		start := []*Node{p.column(nowToken), Zeros(g, shapes.Make(dtypes.Int32, rows, tokens)),
			Zeros(g, shapes.Make(dtypes.Float32, rows, tokens))}
		at := len(start) + len(in) - 2 - recent
		out := device.Repeat(tokens, append(start, in...), func(i *Node, now []*Node) []*Node {
			id, logProb, cache, used := n.stepInputs(now[len(start):]).next(s, now[0], i)
			kernels = used
			store := func(all, x *Node) *Node {
				return DynamicUpdateSlice(all, Reshape(x, rows, 1), []*Node{Const(g, int32(0)), i})
			}
			next := append([]*Node{id, store(now[1], id), store(now[2], logProb)}, now[len(start):]...)
			copy(next[at:], cache)
			return next
		})
		return append(out[1:3:3], out[at:at+recent]...), kernels
	})
}

// stepIn is the input of a decoding step's graph.
type stepIn struct {
	net                Programs
	w                  genWeights
	now, seeds, params *Node
	cache              *cacheIn
}

func (n Programs) stepInputs(in []*Node) *stepIn {
	n = n.merged()
	a := net.Args{In: in}
	p := &stepIn{net: n, w: n.genWeights(&a, n.tied())}
	p.now, p.seeds, p.params = a.One(), a.One(), a.One()
	p.readCache(&a)
	return p
}

func (p *stepIn) readCache(a *net.Args) {
	p.cache = &cacheIn{net: p.net}
	p.cache.readCache(a)
	if p.rows() > p.lines() {
		p.cache.at = p.column(nowSlot)
		return
	}
	p.cache.at = Reshape(Slice(p.now, AxisRange(0, 1), AxisRange(nowSlot, nowSlot+1)))
}

func (p *stepIn) rows() int { return p.now.Shape().Dimensions[0] }

// lines is the number of rows of the cache. If it is smaller than rows, these are several positions of each of them.
func (p *stepIn) lines() int { return p.cache.prefix[0].Shape().Dimensions[0] }

func (p *stepIn) column(k int) *Node {
	return Reshape(Slice(p.now, AxisRange(), AxisRange(k, k+1)), p.rows())
}

// positions [rows, 3] are those of the tokens.
func (p *stepIn) positions() *Node {
	return Slice(p.now, AxisRange(), AxisRange(nowPosition, nowPosition+3))
}

// next feeds the tokens and samples the next ones. index is the number of tokens that were
// fed since now was made; nil is 0.
func (p *stepIn) next(
	s model.Sampler, tokens, index *Node,
) (id, logProb *Node, cache []*Node, kernels model.StepKernels) {
	n := p.net
	p.unpack(&kernels)
	if p.rows() > p.lines() {
		kernels.Like(p.lines())
	}
	pos, count, forced := p.positions(), p.column(nowCount), p.column(nowForced)
	if index != nil {
		pos, count = Add(pos, index), Add(count, index)
		p.advanceCache(index)
	}
	x := model.EmbedForward(p.w.table, tokens, nil, nil, n.Compute)
	cos, sin := n.Cfg.Text.Angles(pos)
	for i, l := range n.Layers {
		var after []*Node
		x, after = l.Step(p.w.layers[i], x, cos, sin, p.cache.past(i), &kernels)
		cache = append(cache, after...)
	}
	count = ConvertDType(count, dtypes.Uint32)
	id, logProb = n.sampleTokens(p.w.head, x, s, p.seeds, count, p.params, forced, &kernels)
	return id, logProb, cache, kernels
}

// live [rows] bool marks unfinished rows.
func (p *stepIn) live() *Node {
	live := p.column(nowLive)
	return GreaterThan(live, ZerosLike(live))
}

// advanceCache sets the slot to write, and allows unfinished rows the slots after the first.
func (p *stepIn) advanceCache(index *Node) {
	c := p.cache
	dims := c.recentAllow.Shape().Dimensions
	first := BroadcastToDims(c.at, dims...)
	c.at = Add(c.at, index)
	slot := Iota(index.Graph(), shapes.Make(dtypes.Int32, dims...), 1)
	live := BroadcastToDims(Reshape(p.live(), dims[0], 1), dims...)
	written := LogicalAnd(GreaterThan(slot, first), LessOrEqual(slot, BroadcastToDims(c.at, dims...)))
	c.recentAllow = LogicalOr(c.recentAllow, LogicalAnd(live, written))
}
