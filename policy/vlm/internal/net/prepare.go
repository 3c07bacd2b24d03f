package net

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/compute/support/xslices"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
)

// Prepare compiles the programs of a training step in parallel before the first of them
// runs; sequential compilation would use only one processor. It derives the shapes of all
// inputs without running anything. Other programs are compiled on first use: those of the
// vision tower and of a second micro-batch.
func (n *Net) Prepare(w *Parts, p *Pack, h *model.Head, chunkSize int) error {
	chunk := p.Chunks(chunkSize)
	if len(chunk) == 0 {
		return nil
	}
	images := 0
	if p.Vision != nil {
		images = p.Vision.patches / (n.Cfg.Vision.Merge * n.Cfg.Vision.Merge)
	}
	key := fmt.Sprint(n.Spec.Critic, p.bins, p.Length, images, len(chunk[0].At), len(chunk) > 1, *h)
	if n.prepared(key) {
		return nil
	}
	ints := func(dims ...int) shapes.Shape { return shapes.Make(dtypes.Int32, dims...) }
	floats := func(dims ...int) shapes.Shape { return shapes.Make(dtypes.Float32, dims...) }
	size, c := p.Size(), len(chunk[0].At)

	in := with(w.Embed, ints(size), ints(size, 3))
	if images > 0 {
		in = append(in, shapes.Make(n.Compute, images, n.Cfg.Text.Hidden), ints(size))
	}
	out, err := n.Embed().Prepare(in)
	if err != nil {
		return err
	}
	x, cos, sin, segment := out[0], out[1], out[2], ints(p.bins, p.Length)
	kept := make([][]shapes.Shape, len(n.Layers)) // by the first layer of a type
	for i := range n.Layers {
		if n.First(i) != i {
			continue
		}
		if out, err = n.layer(i, true).Prepare(with(w.Layers[i], x, cos, sin, segment)); err != nil {
			return err
		}
		kept[i] = append([]shapes.Shape{x}, out[1:]...)
	}

	if out, err = n.ZeroLike().Prepare([]shapes.Shape{x}); err != nil {
		return err
	}
	dx := out[0]
	slots := n.HeadSlots(h, NewGradients(w))
	if out, err = n.Score(h, true).Prepare(with(n.HeadInputs(h, w), x, ints(c), ints(chunk[0].TargetDims()...),
		floats(1))); err != nil {
		return err
	}
	in = with(n.HeadInputs(h, w), x, ints(c), ints(size), ints(chunk[0].TargetDims()...), floats(1),
		floats(c, model.SlopeColumns+h.Chosen), dx)
	in = append(in, KeptOf(h, out)...)
	if out, err = n.HeadBack(h, slots).Prepare(in); err != nil {
		return err
	}
	if len(chunk) > 1 {
		acc := out[1:]
		if _, err := n.HeadBack(h, slots).Prepare(append(in, acc...), xslices.Iota(len(in), len(acc))...); err != nil {
			return err
		}
	}
	return n.prepareBack(w, kept, out[0], cos, sin, segment)
}

// prepareBack compiles the backward pass of each type of layer, from the shape of the gradient of the last
// layer's output, what the types' forward passes keep, and further inputs.
func (n *Net) prepareBack(w *Parts, kept [][]shapes.Shape, dx shapes.Shape, more ...shapes.Shape) error {
	ready := map[int]bool{}
	for i := len(w.Layers) - 1; i >= n.Reach.layer; i-- {
		first := n.First(i)
		if ready[first] {
			continue
		}
		ready[first] = true
		in := append(append(with(w.Layers[i], dx), more...), kept[first]...)
		if _, err := n.layerBack(i, &n.Groups.Layers[i], false).Prepare(in); err != nil {
			return err
		}
	}
	return nil
}

// with returns the shapes of arrays, followed by others.
func with(arrays []*device.Array, more ...shapes.Shape) []shapes.Shape {
	out := make([]shapes.Shape, 0, len(arrays)+len(more))
	for _, a := range arrays {
		out = append(out, a.Shape())
	}
	return append(out, more...)
}

// prepared reports whether a kind of step was already prepared, and marks it as prepared.
func (k *Kernels) prepared(key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	was := k.ready[key]
	k.ready[key] = true
	return was
}
