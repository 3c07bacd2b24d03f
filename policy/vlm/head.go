package vlm

import (
	"math/bits"
	"slices"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
)

// head describes a part of the heads that the architecture has.
func (n *net) head(tokens, value bool) *model.Head {
	return &model.Head{Eps: n.cfg.Text.Eps, Tokens: tokens && !n.spec.Critic, Value: value && (n.spec.Value || n.spec.Critic)}
}

// headInputs returns a head's weights in program order.
func (n *net) headInputs(h *model.Head, w *parts) []*device.Array {
	in := []*device.Array{w.head[0]}
	if h.Tokens {
		if n.spec.Tied {
			in = append(in, w.embed[0])
		} else {
			in = append(in, w.head[1])
		}
	}
	if h.Value {
		in = append(in, w.score...)
	}
	return in
}

// chunk is a part of a pack's scored tokens.
type chunk struct {
	at, target []int32
	slot       []int32 // [positions]: index in the chunk, or size
	from, to   int     // of pack.at
}

// chunks divides the pack's scored tokens into chunks of equal size, so that one executable
// serves all and the logits of a chunk fit into memory. A batch of few tokens gets a
// smaller size.
func (p *pack) chunks(size int) []chunk {
	if p.single && len(p.at) <= size {
		size = min(size, sizeClass(len(p.at), 32))
	}
	if p.chunk > 0 {
		size = min(size, p.chunk)
	}
	var out []chunk
	for from := 0; from < len(p.at); from += size {
		to := min(from+size, len(p.at))
		c := chunk{at: make([]int32, size), target: make([]int32, size), from: from, to: to}
		copy(c.at, p.at[from:to])
		copy(c.target, p.target[from:to])
		c.slot = make([]int32, p.size())
		for i := range c.slot {
			c.slot[i] = int32(size)
		}
		for i, at := range p.at[from:to] {
			c.slot[at] = int32(i)
		}
		out = append(out, c)
	}
	return out
}

// sizeClass rounds n up to least times a power of two: every size means another
// executable, and a chunk's tokens are cheap.
func sizeClass(n, least int) int { return least << bits.Len(uint((max(n, 1)-1)/least)) }

// scored are the head's outputs at a pack's scored tokens.
type scored struct {
	logProb, entropy, value []float32
}

// scoreTrace runs the head over the pack's scored tokens.
func (n *net) scoreTrace(h *model.Head, w *parts, t *trace, chunkSize int, temperature float64) (*scored, error) {
	out := &scored{}
	s := scope{dev: n.dev}
	defer s.free()
	heat := upload(&s, []float32{float32(temperature)})
	weights, err := n.here(&s, n.headInputs(h, w))
	if err != nil {
		return nil, err
	}
	for _, c := range t.pack.chunks(chunkSize) {
		at, target := upload(&s, c.at), upload(&s, c.target)
		if s.err != nil {
			return nil, s.err
		}
		res, err := n.score(h, false).Run(append(slices.Clone(weights), t.x, at, target, heat))
		if err != nil {
			return nil, err
		}
		s.own(res...)
		if err := out.read(h, res, c.to-c.from); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// read appends the head's outputs at n tokens.
func (s *scored) read(h *model.Head, from []*device.Array, n int) error {
	var to []*[]float32
	if h.Tokens {
		to = append(to, &s.logProb, &s.entropy)
	}
	if h.Value {
		to = append(to, &s.value)
	}
	for i, dst := range to {
		var err error
		if *dst, err = appendRead(*dst, from[i], n); err != nil {
			return err
		}
	}
	return nil
}

// appendRead appends the first n numbers of a.
func appendRead(dst []float32, a *device.Array, n int) ([]float32, error) {
	all, err := device.ReadNew[float32](a)
	if err != nil {
		return nil, err
	}
	return append(dst, all[:n]...), nil
}

// learnTrace runs head and backward pass over a pack, and adds the gradients to g.
func (n *net) learnTrace(k *task, w *parts, g *gradients, t *trace) error {
	s := scope{dev: n.dev}
	defer s.free()
	heat := upload(&s, []float32{float32(k.temperature)})
	weights, err := n.here(&s, n.headInputs(k.head, w))
	if err != nil {
		return err
	}
	zero, err := n.zeroLike().Run([]*device.Array{t.x})
	if err != nil {
		return err
	}
	dx := zero[0]
	for _, c := range t.pack.chunks(k.chunk) {
		next, err := n.learnChunk(k, weights, g, t, &c, heat, dx)
		dx.Free()
		if err != nil {
			return err
		}
		dx = next
	}
	return n.backward(w, g, t, dx)
}

// learnChunk runs the head forward and back over a chunk. It returns dx with the gradient of the head's input
// added. The logits stay on the device between the two.
func (n *net) learnChunk(k *task, weights []*device.Array, g *gradients, t *trace, c *chunk, heat, dx *device.Array) (*device.Array, error) {
	s := scope{dev: n.dev}
	defer s.free()
	at, slot, target := upload(&s, c.at), upload(&s, c.slot), upload(&s, c.target)
	if s.err != nil {
		return nil, s.err
	}
	res, err := n.score(k.head, true).Run(append(slices.Clone(weights), t.x, at, target, heat))
	if err != nil {
		return nil, err
	}
	s.own(res...)
	tokens := t.pack.source[c.from:c.to]
	if k.local {
		var own scored
		if err := own.read(k.head, res, len(tokens)); err != nil {
			return nil, err
		}
		own.scatter(tokens, k.head, k.scores)
	}
	numbers, err := k.slopesOf(tokens, len(c.at))
	if err != nil {
		return nil, err
	}
	slopes := upload(&s, numbers, len(c.at), model.SlopeColumns)
	if s.err != nil {
		return nil, s.err
	}
	slots := n.headSlots(k.head, g.parts)
	in := append([]*device.Array{t.x, at, slot, target, heat, slopes, dx}, keptOf(k.head, res)...)
	out, err := n.runBack(n.headBack(k.head, slots), weights, in, headGrads(slots))
	if err != nil {
		return nil, err
	}
	setHeadGrads(slots, out[1:])
	return out[0], nil
}

// keptOf selects what the backward pass of a head reads among the results of its forward pass: log-probs, entropies,
// values, logits and the logarithms of their exponentials' sums, those that the head has.
func keptOf[T any](h *model.Head, res []T) []T {
	if !h.Tokens {
		return nil
	}
	return append([]T{res[1]}, res[len(res)-2:]...)
}
