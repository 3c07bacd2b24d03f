package vlm

import (
	"slices"

	"vagen/policy/vlm/internal/device"
)

// layoutOf returns the uploaded layout of a vision block and whether its groups have equal
// lengths.
func (n *net) layoutOf(t *trace, block int) ([]*device.Array, bool) {
	if n.cfg.Vision.Full(block) {
		return t.layouts[1], t.pack.vision.full.even
	}
	return t.layouts[0], t.pack.vision.window.even
}

func uploadLayout(s *scope, g segments) []*device.Array {
	out := []*device.Array{upload(s, g.segment, g.groups, g.length)}
	if !g.even {
		out = append(out, upload(s, g.index), upload(s, g.inverse))
	}
	return out
}

// patchInputs returns the vision tower's inputs in program order.
func (t *trace) patchInputs() []*device.Array {
	in := []*device.Array{t.pixels, t.place}
	if t.table != nil {
		in = append(in, t.table, t.tableW)
	}
	return in
}

// visionForward runs the vision tower's forward pass on the pack's images.
func (n *net) visionForward(t *trace, w *parts, train bool) error {
	v := t.pack.vision
	t.pixels = upload(&t.scope, v.pixels, v.patches, n.cfg.Vision.PatchDim())
	t.place = upload(&t.scope, v.place, v.patches, 2)
	if v.table != nil {
		t.table = upload(&t.scope, v.table, v.patches, 4)
		t.tableW = upload(&t.scope, v.tableW, v.patches, 4)
	}
	t.layouts = [2][]*device.Array{uploadLayout(&t.scope, v.window), uploadLayout(&t.scope, v.full)}
	if t.err != nil {
		return t.err
	}
	out, err := n.run(n.patch(), w.patch, t.patchInputs()...)
	if err != nil {
		return err
	}
	t.own(out...)
	x := out[0]
	t.vcos, t.vsin = out[1], out[2]
	t.vout = make([]*device.Array, len(w.blocks))
	for i, bw := range w.blocks {
		layout, even := n.layoutOf(t, i)
		in := append([]*device.Array{x, t.vcos, t.vsin}, layout...)
		out, err := n.run(n.visionBlock(train, even), bw, in...)
		if err != nil {
			return err
		}
		t.own(out...)
		if train {
			t.vkept = append(t.vkept, append([]*device.Array{x}, out[1:]...))
		} else if i == 0 || !n.feedsMerger(i-1) {
			x.Free()
		}
		x = out[0]
		if n.feedsMerger(i) {
			t.vout[i] = x
		}
	}
	return n.runMergers(t, w)
}

// feedsMerger reports whether a merger reads the output of the block.
func (n *net) feedsMerger(block int) bool {
	return block == n.cfg.Vision.Depth-1 || slices.Contains(n.cfg.Vision.Deepstack, block)
}

func (n *net) runMergers(t *trace, w *parts) error {
	last := t.vout[len(t.vout)-1]
	out, err := n.run(n.merge(false), w.merger, last)
	if err != nil {
		return err
	}
	t.images = t.own(out...)[0]
	for k, block := range n.cfg.Vision.Deepstack {
		out, err := n.run(n.merge(true), w.deep[k], t.vout[block])
		if err != nil {
			return err
		}
		t.deep = append(t.deep, t.own(out...)[0])
	}
	return nil
}

// visionBackward runs the vision tower's backward pass from the gradients of the image tokens and
// of the deepstack features.
func (n *net) visionBackward(w *parts, g *gradients, t *trace, dImages *device.Array, dDeep []*device.Array) error {
	last := len(w.blocks) - 1
	out, err := n.runBack(n.mergeBack(false, &n.groups.Merger), w.merger, []*device.Array{t.vout[last], dImages}, g.parts.merger)
	if err != nil {
		return err
	}
	dx := out[0]
	t.own(dx)
	g.parts.merger = out[1:]
	for i := last; i >= 0; i-- {
		if dx, err = n.deepstackBackward(w, g, t, i, dx, dDeep); err != nil {
			return err
		}
		layout, even := n.layoutOf(t, i)
		in := append([]*device.Array{dx, t.vcos, t.vsin}, layout...)
		in = append(in, t.vkept[i]...)
		out, err := n.runBack(n.visionBlockBack(even, &n.groups.Blocks[i], g.parts.blocks[i] != nil), w.blocks[i], in, g.parts.blocks[i])
		if err != nil {
			return err
		}
		dx.Free()
		dx = out[0]
		t.own(dx)
		g.parts.blocks[i] = out[1:]
	}
	if !trained(n.groups.Patch) {
		return nil
	}
	g.parts.patch, err = n.runBack(n.patchBack(&n.groups.Patch), w.patch, append(t.patchInputs(), dx), g.parts.patch)
	return err
}

// deepstackBackward adds the contribution of the deepstack mergers of block i to its gradient.
func (n *net) deepstackBackward(w *parts, g *gradients, t *trace, i int, dx *device.Array, dDeep []*device.Array) (*device.Array, error) {
	for k, block := range n.cfg.Vision.Deepstack {
		if block != i {
			continue
		}
		out, err := n.runBack(n.mergeBack(true, &n.groups.Deepstack[k]), w.deep[k], []*device.Array{t.vout[i], dDeep[k]}, g.parts.deep[k])
		if err != nil {
			return nil, err
		}
		t.own(out[0])
		g.parts.deep[k] = out[1:]
		sum, err := n.addPair().Run([]*device.Array{dx, out[0]})
		if err != nil {
			return nil, err
		}
		t.own(sum...)
		dx = sum[0]
	}
	return dx, nil
}
