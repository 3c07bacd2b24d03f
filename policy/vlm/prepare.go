package vlm

import (
	"fmt"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
)

// prepare compiles the programs of a training step in parallel before the first of them
// runs; sequential compilation would use only one processor. It derives the shapes of all
// inputs without running anything. Other programs are compiled on first use: those of the
// vision tower and of a second micro-batch.
func (n *net) prepare(w *parts, p *pack, h *model.Head, chunkSize int) error {
	chunk := p.chunks(chunkSize)
	if len(chunk) == 0 {
		return nil
	}
	images := 0
	if p.vision != nil {
		images = p.vision.patches / (n.cfg.Vision.Merge * n.cfg.Vision.Merge)
	}
	key := fmt.Sprint(n.spec.Critic, p.bins, p.length, images, len(chunk[0].at), len(chunk) > 1, *h)
	if n.prepared(key) {
		return nil
	}
	ints := func(dims ...int) shapes.Shape { return shapes.Make(dtypes.Int32, dims...) }
	floats := func(dims ...int) shapes.Shape { return shapes.Make(dtypes.Float32, dims...) }
	size, c := p.size(), len(chunk[0].at)

	in := with(w.embed, ints(size), ints(size, 3))
	if images > 0 {
		in = append(in, shapes.Make(n.compute, images, n.cfg.Text.Hidden), ints(size))
	}
	out, err := n.embed().Prepare(in)
	if err != nil {
		return err
	}
	x, cos, sin, segment := out[0], out[1], out[2], ints(p.bins, p.length)
	kept := make([][]shapes.Shape, len(n.layers)) // by the first layer of a type
	for i := range n.layers {
		if n.first(i) != i {
			continue
		}
		if out, err = n.layer(i, true).Prepare(with(w.layers[i], x, cos, sin, segment)); err != nil {
			return err
		}
		kept[i] = append([]shapes.Shape{x}, out[1:]...)
	}

	if out, err = n.zeroLike().Prepare([]shapes.Shape{x}); err != nil {
		return err
	}
	dx := out[0]
	slots := n.headSlots(h, newGradients(w).parts)
	if out, err = n.score(h, true).Prepare(with(n.headInputs(h, w), x, ints(c), ints(c), floats(1))); err != nil {
		return err
	}
	in = with(n.headInputs(h, w), x, ints(c), ints(size), ints(c), floats(1), floats(c, model.SlopeColumns), dx)
	in = append(in, keptOf(h, out)...)
	if out, err = n.headBack(h, slots).Prepare(in); err != nil {
		return err
	}
	if len(chunk) > 1 {
		acc := out[1:]
		if _, err := n.headBack(h, slots).Prepare(append(in, acc...), from(len(in), len(acc))...); err != nil {
			return err
		}
	}
	dx = out[0]
	ready := map[int]bool{}
	for i := len(w.layers) - 1; i >= n.reach.layer; i-- {
		first := n.first(i)
		if ready[first] {
			continue
		}
		ready[first] = true
		in = append(with(w.layers[i], dx, cos, sin, segment), kept[first]...)
		if _, err = n.layerBack(i, &n.groups.Layers[i], false).Prepare(in); err != nil {
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

// from returns n indices of a program's inputs, starting at first.
func from(first, n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = first + i
	}
	return out
}

// prepared reports whether a kind of step was already prepared, and marks it as prepared.
func (k *kernels) prepared(key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	was := k.ready[key]
	k.ready[key] = true
	return was
}

// prepareAdam compiles the optimiser's programs in the background: for a group, or, if
// single is set, for each array.
func (n *net) prepareAdam(w *tensors, single bool) error {
	for i, g := range w.groups {
		var grads []shapes.Shape
		for _, k := range g.Trained() {
			grads = append(grads, w.arrays[i][k].Shape())
		}
		sets := [][]shapes.Shape{grads}
		if single {
			sets = slices.Collect(slices.Chunk(grads, 1))
		}
		for _, set := range sets {
			if err := n.prepareAdamOf(set); err != nil {
				return err
			}
		}
	}
	return nil
}

// prepareAdamOf compiles the optimiser's programs for gradients of these shapes.
func (n *net) prepareAdamOf(grads []shapes.Shape) error {
	if len(grads) == 0 {
		return nil
	}
	if _, err := n.squares().Prepare(grads); err != nil {
		return err
	}
	var in []shapes.Shape
	for range 4 { // weights, both moments, gradients
		in = append(in, grads...)
	}
	in = append(in, shapes.Make(dtypes.Float32, int(model.OptParams)))
	_, err := n.adam().Prepare(in, from(0, 3*len(grads))...)
	return err
}
