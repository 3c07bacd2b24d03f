package vlm

import (
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
)

// net runs one architecture's kernels on packs of rows, with any weights.
type net struct {
	*kernels               // shared by all nets of the architecture
	spec     *model.Config // like kernels.cfg, except for the heads
	groups   *model.Groups
	reach    gradientReach
}

func newNet(k *kernels, spec *model.Config) *net {
	g := spec.Groups()
	return &net{kernels: k, spec: spec, groups: g, reach: newGradientReach(g)}
}

// on returns the net for arrays on another device.
func (n *net) on(d *device.Device) *net {
	c := *n
	c.kernels = n.kernels.on(d)
	return &c
}

// parts are a model's arrays by their role in the network.
type parts struct {
	patch  []*device.Array
	blocks [][]*device.Array
	merger []*device.Array
	deep   [][]*device.Array
	embed  []*device.Array
	layers [][]*device.Array
	head   []*device.Array // norm, [table]
	score  []*device.Array // weight and bias of the value head, if there is one
}

// parts sorts arrays given in the order of model.Groups.All.
func (n *net) parts(t *tensors) *parts {
	p := &parts{}
	rest := t.arrays
	next := func() []*device.Array {
		a := rest[0]
		rest = rest[1:]
		return a
	}
	if len(n.groups.Patch.Params) > 0 {
		p.patch = next()
		for range n.groups.Blocks {
			p.blocks = append(p.blocks, next())
		}
		p.merger = next()
		for range n.groups.Deepstack {
			p.deep = append(p.deep, next())
		}
	}
	p.embed = next()
	for range n.groups.Layers {
		p.layers = append(p.layers, next())
	}
	p.head = next()
	if len(n.groups.Score.Params) > 0 {
		p.score = next()
	}
	return p
}

// scope owns temporary arrays until it is freed.
type scope struct {
	dev    *device.Device
	arrays []*device.Array
	err    error
}

func (s *scope) free() { device.FreeAll(s.arrays...); s.arrays = nil }

func (s *scope) own(a ...*device.Array) []*device.Array {
	s.arrays = append(s.arrays, a...)
	return a
}

// upload copies data to the device for the lifetime of the scope. After the first error
// later uploads do nothing.
func upload[T int32 | uint32 | float32 | float64 | uint8 | bool](s *scope, data []T, dims ...int) *device.Array {
	if s.err != nil {
		return nil
	}
	a, err := device.Put(s.dev, data, dims...)
	if err != nil {
		s.err = err
		return nil
	}
	s.own(a)
	return a
}

// trace is one forward pass: inputs of the head and of the backward pass.
type trace struct {
	scope
	pack *pack

	tokens, pos, segment, imageRow, slot *device.Array

	x        *device.Array // output of the last layer [positions, hidden]
	cos, sin *device.Array
	kept     [][]*device.Array // per layer

	// vision tower
	pixels, place, table, tableW *device.Array
	vcos, vsin                   *device.Array
	vkept                        [][]*device.Array  // per block
	vout                         []*device.Array    // output of each block that a merger reads, by block
	images                       *device.Array      // merged tokens
	deep                         []*device.Array    // deepstack features, by level
	layouts                      [2][]*device.Array // window, full
}

// drop frees a trace, which may be nil or already freed.
func (t *trace) drop() {
	if t != nil {
		t.free()
	}
}

// forward runs the decoder, with the images of the pack, up to the last layer.
// With train it keeps what backward needs.
func (n *net) forward(w *parts, p *pack, train bool) (*trace, error) {
	t := &trace{scope: scope{dev: n.dev}, pack: p}
	if err := n.forwardInto(t, w, train); err != nil {
		t.free()
		return nil, err
	}
	return t, nil
}

func (n *net) forwardInto(t *trace, w *parts, train bool) error {
	p := t.pack
	t.tokens = upload(&t.scope, p.tokens)
	t.pos = upload(&t.scope, p.pos, p.size(), 3)
	t.segment = upload(&t.scope, p.segment, p.bins, p.length)
	if t.err != nil {
		return t.err
	}
	in := []*device.Array{t.tokens, t.pos}
	if p.vision != nil {
		if err := n.visionForward(t, w, train && n.reach.vision); err != nil {
			return err
		}
		t.imageRow = upload(&t.scope, p.imageRow)
		t.slot = upload(&t.scope, p.slot)
		if t.err != nil {
			return t.err
		}
		in = append(in, t.images, t.imageRow)
	}
	out, err := n.run(n.embed(), w.embed, in...)
	if err != nil {
		return err
	}
	t.own(out...)
	t.x, t.cos, t.sin = out[0], out[1], out[2]
	for i, lw := range w.layers {
		if err := n.forwardLayer(t, lw, i, train); err != nil {
			return err
		}
	}
	return nil
}

func (n *net) forwardLayer(t *trace, lw []*device.Array, i int, train bool) error {
	out, err := n.run(n.layer(i, train), lw, t.x, t.cos, t.sin, t.segment)
	if err != nil {
		return err
	}
	t.own(out...)
	if train {
		t.kept = append(t.kept, append([]*device.Array{t.x}, out[1:]...))
	} else {
		t.x.Free()
	}
	t.x = out[0]
	if i < len(t.deep) {
		out, err := n.addRows().Run([]*device.Array{t.x, t.deep[i], t.imageRow})
		if err != nil {
			return err
		}
		t.own(out...)
		t.x.Free()
		t.x = out[0]
	}
	return nil
}

// backward maps dx, the gradient of the last layer's output, to the gradients of all
// trained parameters except the head's, and adds them to g. It consumes dx.
func (n *net) backward(w *parts, g *gradients, t *trace, dx *device.Array) error {
	t.own(dx)
	var dDeep []*device.Array
	for i := len(w.layers) - 1; i >= n.reach.layer; i-- {
		if i < len(t.deep) && n.reach.vision {
			out, err := n.takeRows().Run([]*device.Array{dx, t.slot})
			if err != nil {
				return err
			}
			dDeep = append(t.own(out...), dDeep...)
		}
		in := append([]*device.Array{dx, t.cos, t.sin, t.segment}, t.kept[i]...)
		out, err := n.runBack(n.layerBack(i, &n.groups.Layers[i], g.parts.layers[i] != nil), w.layers[i], in, g.parts.layers[i])
		if err != nil {
			return err
		}
		dx.Free()
		device.FreeAll(t.kept[i]...)
		dx = out[0]
		t.own(dx)
		g.parts.layers[i] = out[1:]
	}
	if !n.reach.embed && !n.reach.vision {
		dx.Free()
		return nil
	}
	return n.backwardEmbed(w, g, t, dx, dDeep)
}

func (n *net) backwardEmbed(w *parts, g *gradients, t *trace, dx *device.Array, dDeep []*device.Array) error {
	images := t.images != nil
	in := []*device.Array{t.tokens, dx}
	if images {
		in = append(in, t.imageRow, t.slot)
	}
	out, err := n.runBack(n.embedBack(images, n.reach.embed, g.parts.embed != nil), w.embed, in, g.parts.embed)
	if err != nil {
		return err
	}
	if n.reach.embed {
		g.parts.embed, out = out[:1], out[1:]
	}
	t.own(out...)
	if !images || !n.reach.vision {
		return nil
	}
	return n.visionBackward(w, g, t, out[0], dDeep)
}

// gradients accumulate over the micro-batches of a step. A part is nil until a gradient is
// added.
type gradients struct {
	parts *parts
}

func newGradients(w *parts) *gradients {
	return &gradients{parts: &parts{
		blocks: make([][]*device.Array, len(w.blocks)),
		deep:   make([][]*device.Array, len(w.deep)),
		layers: make([][]*device.Array, len(w.layers)),
	}}
}

// runBack runs a backward program, whose first inputs are weights; acc, if there is one, is the
// last input and is donated.
func (n *net) runBack(p *device.Program, weights, more, acc []*device.Array) ([]*device.Array, error) {
	s := scope{dev: n.dev}
	defer s.free()
	in, err := n.here(&s, weights)
	if err != nil {
		return nil, err
	}
	in = append(in, more...)
	return p.Run(append(in, acc...), from(len(in), len(acc))...)
}

// list returns the gradients in the order of model.Groups.All. Groups that no
// micro-batch reached are nil.
func (n *net) list(p *parts) [][]*device.Array {
	var out [][]*device.Array
	if len(n.groups.Patch.Params) > 0 {
		out = append(out, p.patch)
		out = append(out, p.blocks...)
		out = append(out, p.merger)
		out = append(out, p.deep...)
	}
	out = append(out, p.embed)
	out = append(out, p.layers...)
	out = append(out, p.head)
	if len(n.groups.Score.Params) > 0 {
		out = append(out, p.score)
	}
	return out
}

func (n *net) freeGradients(g *gradients) {
	for _, a := range n.list(g.parts) {
		device.FreeAll(a...)
	}
}
