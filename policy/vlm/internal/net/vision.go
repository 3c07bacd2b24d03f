package net

import (
	"slices"

	"vagen/policy/vlm/internal/device"
)

// layoutOf returns the uploaded layout of a vision block and whether its groups have equal
// lengths.
func (n *Net) layoutOf(t *Trace, block int) ([]*device.Array, bool) {
	if n.Cfg.Vision.Full(block) {
		return t.layouts[1], t.Pack.Vision.full.even
	}
	return t.layouts[0], t.Pack.Vision.window.even
}

func uploadLayout(s *Scope, g segments) []*device.Array {
	out := []*device.Array{Upload(s, g.segment, g.groups, g.length)}
	if !g.even {
		out = append(out, Upload(s, g.index), Upload(s, g.inverse))
	}
	return out
}

// VisionForward runs the vision tower's forward pass on the pack's images.
func (n *Net) VisionForward(t *Trace, w *Parts, train bool) error {
	v := t.Pack.Vision
	t.patches = []*device.Array{Upload(&t.Scope, v.pixels(n.Cfg.Vision), v.patches, n.Cfg.Vision.PatchDim()),
		Upload(&t.Scope, v.place, v.patches, 2)}
	if v.Table != nil {
		t.patches = append(t.patches, Upload(&t.Scope, v.Table, v.patches, 4), Upload(&t.Scope, v.TableW, v.patches, 4))
	}
	t.layouts = [2][]*device.Array{uploadLayout(&t.Scope, v.window), uploadLayout(&t.Scope, v.full)}
	if t.Err != nil {
		return t.Err
	}
	out, err := n.Run(n.patch(), w.Patch, t.patches...)
	if err != nil {
		return err
	}
	t.Own(out...)
	x := out[0]
	t.vcos, t.vsin = out[1], out[2]
	t.Vout = make([]*device.Array, len(w.Blocks))
	for i, bw := range w.Blocks {
		layout, even := n.layoutOf(t, i)
		in := append([]*device.Array{x, t.vcos, t.vsin}, layout...)
		out, err := n.Run(n.visionBlock(train, even), bw, in...)
		if err != nil {
			return err
		}
		t.Own(out...)
		if train {
			t.Vkept = append(t.Vkept, append([]*device.Array{x}, out[1:]...))
		} else if i == 0 || !n.feedsMerger(i-1) {
			x.Free()
		}
		x = out[0]
		if n.feedsMerger(i) {
			t.Vout[i] = x
		}
	}
	return n.runMergers(t, w)
}

// feedsMerger reports whether a merger reads the output of the block.
func (n *Net) feedsMerger(block int) bool {
	return block == n.Cfg.Vision.Depth-1 || slices.Contains(n.Cfg.Vision.Deepstack, block)
}

func (n *Net) runMergers(t *Trace, w *Parts) error {
	last := t.Vout[len(t.Vout)-1]
	out, err := n.Run(n.merge(false), w.Merger, last)
	if err != nil {
		return err
	}
	t.Images = t.Own(out...)[0]
	for k, block := range n.Cfg.Vision.Deepstack {
		out, err := n.Run(n.merge(true), w.Deepstack[k], t.Vout[block])
		if err != nil {
			return err
		}
		t.Deep = append(t.Deep, t.Own(out...)[0])
	}
	return nil
}

// visionBackward runs the vision tower's backward pass from the gradients of the image tokens and
// of the deepstack features.
func (n *Net) visionBackward(w *Parts, g *Parts, t *Trace, dImages *device.Array, dDeep []*device.Array) error {
	last := len(w.Blocks) - 1
	out, err := n.RunBack(n.mergeBack(false, &n.Groups.Merger), w.Merger, []*device.Array{t.Vout[last], dImages},
		g.Merger)
	if err != nil {
		return err
	}
	dx := out[0]
	t.Own(dx)
	g.Merger = out[1:]
	for i := last; i >= 0; i-- {
		if dx, err = n.deepstackBackward(w, g, t, i, dx, dDeep); err != nil {
			return err
		}
		layout, even := n.layoutOf(t, i)
		in := append([]*device.Array{dx, t.vcos, t.vsin}, layout...)
		in = append(in, t.Vkept[i]...)
		out, err := n.RunBack(n.visionBlockBack(even, &n.Groups.Blocks[i], g.Blocks[i] != nil), w.Blocks[i], in,
			g.Blocks[i])
		if err != nil {
			return err
		}
		dx.Free()
		dx = out[0]
		t.Own(dx)
		g.Blocks[i] = out[1:]
	}
	if !trained(n.Groups.Patch) {
		return nil
	}
	g.Patch, err = n.RunBack(n.patchBack(&n.Groups.Patch), w.Patch, append(t.patches, dx), g.Patch)
	return err
}

// deepstackBackward adds the contribution of the deepstack mergers of block i to its gradient.
func (n *Net) deepstackBackward(
	w *Parts, g *Parts, t *Trace, i int, dx *device.Array, dDeep []*device.Array,
) (*device.Array, error) {
	for k, block := range n.Cfg.Vision.Deepstack {
		if block != i {
			continue
		}
		in := []*device.Array{t.Vout[i], dDeep[k]}
		out, err := n.RunBack(n.mergeBack(true, &n.Groups.Deepstack[k]), w.Deepstack[k], in, g.Deepstack[k])
		if err != nil {
			return nil, err
		}
		t.Own(out[0])
		g.Deepstack[k] = out[1:]
		sum, err := n.AddLists().Run([]*device.Array{dx, out[0]})
		if err != nil {
			return nil, err
		}
		t.Own(sum...)
		dx = sum[0]
	}
	return dx, nil
}
