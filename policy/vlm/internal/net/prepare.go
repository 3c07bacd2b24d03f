package net

import (
	"fmt"
	"slices"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
)

// SlopesOf returns the derivatives by the results of a chunk's forward pass, model.SlopeColumns and those of chosen
// tokens for each of its positions.
type SlopesOf func(c *Chunk, results []*device.Array) ([]float32, error)

// Learn runs the head forward and back over chunks of a pack, and the network back, and adds the gradients to g.
func (n *Net) Learn(
	h *model.Head, w, g *Parts, t *Trace, chunks []Chunk, temperature float64, slopes SlopesOf,
) error {
	s := Scope{Dev: n.Dev}
	defer s.Free()
	heat := Upload(&s, []float32{float32(temperature)})
	weights, err := n.Here(&s, n.HeadInputs(h, w))
	if err != nil {
		return err
	}
	zero, err := n.ZeroLike().Run([]*device.Array{t.X})
	if err != nil {
		return err
	}
	dx := zero[0]
	for _, c := range chunks {
		next, err := n.learnChunk(h, weights, g, t, &c, heat, dx, slopes)
		dx.Free()
		if err != nil {
			return err
		}
		dx = next
	}
	return n.Backward(w, g, t, dx)
}

// learnChunk runs the head forward and back over a chunk. It returns dx with the gradient of the head's input
// added. The logits stay on the device between the two.
func (n *Net) learnChunk(
	h *model.Head, weights []*device.Array, g *Parts, t *Trace, c *Chunk, heat, dx *device.Array, slopes SlopesOf,
) (*device.Array, error) {
	s := Scope{Dev: n.Dev}
	defer s.Free()
	at, slot, target := Upload(&s, c.At), Upload(&s, c.Slot), Upload(&s, c.Target, c.TargetDims()...)
	if s.Err != nil {
		return nil, s.Err
	}
	res, err := n.Score(h, true).Run(append(slices.Clone(weights), t.X, at, target, heat))
	if err != nil {
		return nil, err
	}
	s.Own(res...)
	numbers, err := slopes(c, res)
	if err != nil {
		return nil, err
	}
	by := Upload(&s, numbers, len(c.At), model.SlopeColumns+h.Chosen)
	if s.Err != nil {
		return nil, s.Err
	}
	slots := n.HeadSlots(h, g)
	in := append([]*device.Array{t.X, at, slot, target, heat, by, dx}, KeptOf(h, res)...)
	out, err := n.RunBack(n.HeadBack(h, slots), weights, in, HeadGrads(slots))
	if err != nil {
		return nil, err
	}
	SetHeadGrads(slots, out[1:])
	return out[0], nil
}

// Prepare compiles the programs of a training step in parallel before the first of them
// runs; sequential compilation would use only one processor. The programs of a second micro-batch are compiled on first
// use.
func (n *Net) Prepare(w *Parts, p *Pack, h *model.Head, chunkSize int) error {
	chunks := p.Chunks(chunkSize)
	if len(chunks) == 0 {
		return nil
	}
	images := 0
	if p.Vision != nil {
		images = p.Vision.patches
	}
	if n.prepared(fmt.Sprint(n.Spec.Critic, p.bins, p.Length, images, len(chunks[0].At), len(chunks) > 1, *h)) {
		return nil
	}
	n = n.On(n.Dev.Dry())
	t, err := n.Forward(w, p, true)
	if err != nil {
		return err
	}
	none := func(c *Chunk, _ []*device.Array) ([]float32, error) {
		return make([]float32, len(c.At)*(model.SlopeColumns+h.Chosen)), nil
	}
	return n.Learn(h, w, NewGradients(w), t, chunks[:min(2, len(chunks))], 1, none)
}

// prepared reports whether a kind of step was already prepared, and marks it as prepared.
func (k *Kernels) prepared(key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	was := k.ready[key]
	k.ready[key] = true
	return was
}
