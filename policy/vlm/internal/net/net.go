// Package net runs the network: packs of rows through transformer, vision tower and heads, forward and back.
// It knows no loss, no file and no conversation: weights are arrays that the caller sorts by their role.
package net

import (
	"time"

	"github.com/gomlx/compute/support/xslices"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
)

// Net runs one architecture's kernels on packs of rows, with any weights.
type Net struct {
	*Kernels               // shared by all nets of the architecture
	Spec     *model.Config // like kernels.cfg, except for the heads
	Groups   *model.Groups
	Reach    gradientReach
}

func New(k *Kernels, spec *model.Config) *Net {
	g := spec.Groups()
	return &Net{Kernels: k, Spec: spec, Groups: g, Reach: newGradientReach(g)}
}

// On returns the net for arrays on another device.
func (n *Net) On(d *device.Device) *Net {
	c := *n
	c.Kernels = n.Kernels.on(d)
	return &c
}

// Parts are a model's arrays by their role in the network: in the head norm and, unless it is tied, table, in the value
// head weight and bias.
type Parts = model.Roles[[]*device.Array]

// PartsOf sorts arrays given in the order of model.Groups.All.
func (n *Net) PartsOf(arrays [][]*device.Array) *Parts {
	p := model.Like[[]*device.Array](&n.Groups.Roles)
	for i, part := range n.places(p) {
		*part = arrays[i]
	}
	return p
}

// places are a model's parts in the order of model.Groups.All.
func (n *Net) places(p *Parts) (out []*[]*device.Array) {
	all := p.All()
	for i, g := range n.Groups.Roles.All() {
		if len(g.Params) > 0 {
			out = append(out, all[i])
		}
	}
	return out
}

// Scope owns temporary arrays until it is freed.
type Scope struct {
	Dev    *device.Device
	Arrays []*device.Array
	Err    error
}

func (s *Scope) Free() { device.FreeAll(s.Arrays...); s.Arrays = nil }

func (s *Scope) Own(a ...*device.Array) []*device.Array {
	s.Arrays = append(s.Arrays, a...)
	return a
}

// Upload copies data to the device for the lifetime of the scope. After the first error
// later uploads do nothing.
func Upload[T int32 | uint32 | float32 | float64 | uint8 | bool](s *Scope, data []T, dims ...int) *device.Array {
	if s.Err != nil {
		return nil
	}
	a, err := device.Put(s.Dev, data, dims...)
	if err != nil {
		s.Err = err
		return nil
	}
	s.Own(a)
	return a
}

// Trace is one forward pass: inputs of the head and of the backward pass.
type Trace struct {
	Scope
	Pack *Pack

	tokens, segment, imageRow, slot *device.Array

	X        *device.Array // output of the last layer [positions, hidden]
	Cos, sin *device.Array
	Kept     [][]*device.Array // per layer

	// vision tower
	patches    []*device.Array // its inputs in program order
	vcos, vsin *device.Array
	Vkept      [][]*device.Array  // per block
	Vout       []*device.Array    // output of each block that a merger reads, by block
	Images     *device.Array      // merged tokens
	Deep       []*device.Array    // deepstack features, by level
	layouts    [2][]*device.Array // window, full
}

// Drop frees a trace, which may be nil or already freed.
func (t *Trace) Drop() {
	if t != nil {
		t.Free()
	}
}

// Forward runs the decoder, with the images of the pack, up to the last layer.
// With train it keeps what backward needs.
func (n *Net) Forward(w *Parts, p *Pack, train bool) (*Trace, error) {
	t := &Trace{Scope: Scope{Dev: n.Dev}, Pack: p}
	if err := n.forwardInto(t, w, train); err != nil {
		t.Free()
		return nil, err
	}
	return t, nil
}

func (n *Net) forwardInto(t *Trace, w *Parts, train bool) error {
	p := t.Pack
	t.tokens = Upload(&t.Scope, p.tokens)
	pos := Upload(&t.Scope, p.pos, p.Size(), 3)
	t.segment = Upload(&t.Scope, p.Segment, p.bins, p.Length)
	if t.Err != nil {
		return t.Err
	}
	in := []*device.Array{t.tokens, pos}
	if p.Vision != nil {
		if err := n.VisionForward(t, w, train && n.Reach.Vision); err != nil {
			return err
		}
		t.imageRow = Upload(&t.Scope, p.ImageRow)
		t.slot = Upload(&t.Scope, p.slot)
		if t.Err != nil {
			return t.Err
		}
		in = append(in, t.Images, t.imageRow)
	}
	out, err := n.Run(n.Embed(), w.Embed, in...)
	if err != nil {
		return err
	}
	t.Own(out...)
	t.X, t.Cos, t.sin = out[0], out[1], out[2]
	for i, lw := range w.Layers {
		if err := n.forwardLayer(t, lw, i, train); err != nil {
			return err
		}
	}
	return nil
}

func (n *Net) forwardLayer(t *Trace, lw []*device.Array, i int, train bool) error {
	out, err := n.Run(n.layer(i, train), lw, t.X, t.Cos, t.sin, t.segment)
	if err != nil {
		return err
	}
	t.Own(out...)
	if train {
		t.Kept = append(t.Kept, append([]*device.Array{t.X}, out[1:]...))
	} else {
		t.X.Free()
	}
	t.X = out[0]
	if i < len(t.Deep) {
		out, err := n.AddRows().Run([]*device.Array{t.X, t.Deep[i], t.imageRow})
		if err != nil {
			return err
		}
		t.Own(out...)
		t.X.Free()
		t.X = out[0]
	}
	return nil
}

// Backward maps dx, the gradient of the last layer's output, to the gradients of all
// trained parameters except the head's, and adds them to g. It consumes dx.
func (n *Net) Backward(w *Parts, g *Parts, t *Trace, dx *device.Array) error {
	t.Own(dx)
	var dDeep []*device.Array
	for i := len(w.Layers) - 1; i >= n.Reach.layer; i-- {
		if i < len(t.Deep) && n.Reach.Vision {
			out, err := n.TakeRows().Run([]*device.Array{dx, t.slot})
			if err != nil {
				return err
			}
			dDeep = append(t.Own(out...), dDeep...)
		}
		in := append([]*device.Array{dx, t.Cos, t.sin, t.segment}, t.Kept[i]...)
		out, err := n.RunBack(n.layerBack(i, &n.Groups.Layers[i], g.Layers[i] != nil), w.Layers[i], in,
			g.Layers[i])
		if err != nil {
			return err
		}
		dx.Free()
		device.FreeAll(t.Kept[i]...)
		dx = out[0]
		t.Own(dx)
		g.Layers[i] = out[1:]
	}
	if !n.Reach.embed && !n.Reach.Vision {
		dx.Free()
		return nil
	}
	return n.backwardEmbed(w, g, t, dx, dDeep)
}

func (n *Net) backwardEmbed(w *Parts, g *Parts, t *Trace, dx *device.Array, dDeep []*device.Array) error {
	images := t.Images != nil
	in := []*device.Array{t.tokens, dx}
	if images {
		in = append(in, t.imageRow, t.slot)
	}
	out, err := n.RunBack(n.embedBack(images, n.Reach.embed, g.Embed != nil), w.Embed, in, g.Embed)
	if err != nil {
		return err
	}
	if n.Reach.embed {
		g.Embed, out = out[:1], out[1:]
	}
	t.Own(out...)
	if !images || !n.Reach.Vision {
		return nil
	}
	return n.visionBackward(w, g, t, out[0], dDeep)
}

// NewGradients returns the sums of a step's gradients. A part is nil until a gradient is added.
func NewGradients(w *Parts) *Parts { return model.Like[[]*device.Array](w) }

// RunBack runs a backward program, whose first inputs are weights; acc, if there is one, is the
// last input and is donated.
func (n *Net) RunBack(p *device.Program, weights, more, acc []*device.Array) ([]*device.Array, error) {
	s := Scope{Dev: n.Dev}
	defer s.Free()
	in, err := n.Here(&s, weights)
	if err != nil {
		return nil, err
	}
	in = append(in, more...)
	return p.Run(append(in, acc...), xslices.Iota(len(in), len(acc))...)
}

// List returns the gradients in the order of model.Groups.All. Groups that no
// micro-batch reached are nil.
func (n *Net) List(p *Parts) (out [][]*device.Array) {
	for _, part := range n.places(p) {
		out = append(out, *part)
	}
	return out
}

func (n *Net) FreeGradients(g *Parts) {
	for _, a := range n.List(g) {
		device.FreeAll(a...)
	}
}

// Here returns arrays on the net's device: copies, which the scope owns, of those that are on
// another device.
func (n *Net) Here(s *Scope, arrays []*device.Array) ([]*device.Array, error) {
	out := make([]*device.Array, 0, len(arrays)+16) // inputs besides the weights follow
	for _, a := range arrays {
		if a.Device() != n.Dev {
			start := time.Now()
			c, err := device.Copy(a, n.Dev)
			if err != nil {
				return nil, err
			}
			s.Own(c)
			n.Fetching.Add(int64(time.Since(start)))
			a = c
		}
		out = append(out, a)
	}
	return out, nil
}

// Run runs a program whose first inputs are weights.
func (n *Net) Run(p *device.Program, weights []*device.Array, more ...*device.Array) ([]*device.Array, error) {
	return n.RunBack(p, weights, more, nil)
}
