package vlm

import (
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

// scored are the head's outputs at a pack's scored tokens.
type scored struct {
	logProb, entropy, value []float32
}

// scoreTrace runs the head over the pack's scored tokens.
func (n *net) scoreTrace(h *model.Head, w *parts, t *trace, chunkSize int, temperature float64) (*scored, error) {
	out := &scored{}
	hyper := make([]float32, model.HyperParams)
	hyper[model.Temperature] = float32(temperature)
	s := scope{dev: n.dev}
	defer s.free()
	hyp := upload(&s, hyper)
	weights, err := n.here(&s, n.headInputs(h, w))
	if err != nil {
		return nil, err
	}
	for _, c := range t.pack.chunks(chunkSize) {
		at, target := upload(&s, c.at), upload(&s, c.target)
		if s.err != nil {
			return nil, s.err
		}
		res, err := n.score(h).Run(append(slices.Clone(weights), t.x, at, target, hyp))
		if err != nil {
			return nil, err
		}
		s.own(res...)
		if h.Tokens {
			if out.logProb, err = appendRead(out.logProb, res[0], c.to-c.from); err != nil {
				return nil, err
			}
			if out.entropy, err = appendRead(out.entropy, res[1], c.to-c.from); err != nil {
				return nil, err
			}
			res = res[2:]
		}
		if h.Value {
			if out.value, err = appendRead(out.value, res[0], c.to-c.from); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// appendRead appends the first n numbers of a.
func appendRead(dst []float32, a *device.Array, n int) ([]float32, error) {
	all, err := device.ReadNew[float32](a)
	if err != nil {
		return nil, err
	}
	return append(dst, all[:n]...), nil
}

// columns is the loss's input for a pack: model.Columns numbers per token.
type columns []float32

// learnTrace runs head, loss and backward pass over a pack, adds the gradients
// to g and returns the summed statistics.
func (n *net) learnTrace(h *model.Head, loss *model.Loss, w *parts, g *gradients, t *trace, cols columns,
	hyper *device.Array, chunkSize int) ([]float64, error) {
	stats := make([]float64, model.Stats)
	s := scope{dev: n.dev}
	defer s.free()
	weights, err := n.here(&s, n.headInputs(h, w))
	if err != nil {
		return nil, err
	}
	zero, err := n.zeroLike().Run([]*device.Array{t.x})
	if err != nil {
		return nil, err
	}
	dx := zero[0]
	for _, c := range t.pack.chunks(chunkSize) {
		part := make([]float32, len(c.at)*int(model.Columns))
		copy(part, cols[c.from*int(model.Columns):c.to*int(model.Columns)])
		at, slot, target := upload(&s, c.at), upload(&s, c.slot), upload(&s, c.target)
		data := upload(&s, part, len(c.at), int(model.Columns))
		if s.err != nil {
			dx.Free()
			return nil, s.err
		}
		in := []*device.Array{t.x, at, slot, target, data, hyper, dx}
		slots := n.headSlots(h, g.parts)
		out, err := n.runBack(n.update(h, loss, slots), weights, in, headGrads(slots))
		dx.Free()
		if err != nil {
			return nil, err
		}
		dx = out[0]
		setHeadGrads(slots, out[1:len(out)-1])
		sums, err := device.ReadNew[float32](out[len(out)-1])
		out[len(out)-1].Free()
		if err != nil {
			dx.Free()
			return nil, err
		}
		addSums(stats, sums)
	}
	return stats, n.backward(w, g, t, dx)
}

// addSums adds the statistics of parts of a step.
func addSums[T float32 | float64](sum []float64, part []T) {
	for i, x := range part {
		if model.Stat(i) == model.StatRatioMax {
			sum[i] = max(sum[i], float64(x))
			continue
		}
		sum[i] += float64(x)
	}
}
