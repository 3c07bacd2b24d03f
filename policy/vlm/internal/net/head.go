package net

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
)

// Head describes a part of the heads that the architecture has.
func (n *Net) Head(tokens, value bool) *model.Head {
	return &model.Head{Eps: n.Cfg.Text.Eps, PlusOne: n.Cfg.Text.PlusOne, Tokens: tokens && !n.Spec.Critic, Value: value &&
		(n.Spec.Value || n.Spec.Critic)}
}

// HeadInputs returns a head's weights in program order.
func (n *Net) HeadInputs(h *model.Head, w *Parts) []*device.Array {
	in := []*device.Array{w.Head[0]}
	if h.Tokens {
		if n.Spec.Tied {
			in = append(in, w.Embed[0])
		} else {
			in = append(in, w.Head[1])
		}
	}
	if h.Value {
		in = append(in, w.Score...)
	}
	return in
}

// Chunk is a part of a pack's scored tokens.
type Chunk struct {
	At, Target []int32 // Target is [size, 1+chosen tokens]
	Slot       []int32 // [positions]: index in the chunk, or size
	From, To   int     // of pack.at
}

// Chunks divides the pack's scored tokens into chunks of equal size, so that one executable
// serves all and the logits of a chunk fit into memory. A batch of few tokens gets a
// smaller size.
func (p *Pack) Chunks(size int) []Chunk {
	if p.single && len(p.At) <= size {
		size = min(size, SizeClass(len(p.At), 32))
	}
	if p.chunk > 0 {
		size = min(size, p.chunk)
	}
	var out []Chunk
	for from := 0; from < len(p.At); from += size {
		to := min(from+size, len(p.At))
		c := Chunk{At: make([]int32, size), Target: make([]int32, size*(1+p.perToken)), From: from, To: to}
		copy(c.At, p.At[from:to])
		for i, target := range p.target[from:to] {
			c.Target[i*(1+p.perToken)] = target
			copy(c.Target[i*(1+p.perToken)+1:], p.chosen[p.Source[from+i]*p.perToken:][:p.perToken])
		}
		c.Slot = make([]int32, p.Size())
		for i := range c.Slot {
			c.Slot[i] = int32(size)
		}
		for i, at := range p.At[from:to] {
			c.Slot[at] = int32(i)
		}
		out = append(out, c)
	}
	return out
}

// Choose sets the tokens of the vocabulary that heads compare: k for each token of the rows; nil for none.
func Choose(packs []*Pack, tokens []int32, k int) {
	if tokens == nil {
		k = 0
	}
	for _, p := range packs {
		p.chosen, p.perToken = tokens, k
	}
}

// TargetDims are the dimensions of a chunk's targets.
func (c *Chunk) TargetDims() []int {
	if len(c.Target) == len(c.At) {
		return []int{len(c.At)}
	}
	return []int{len(c.At), len(c.Target) / len(c.At)}
}

// SizeClass rounds n up to least times a power of two: every size means another
// executable, and a chunk's tokens are cheap.
func SizeClass(n, least int) int { return least << bits.Len(uint((max(n, 1)-1)/least)) }

// Scored are the head's outputs at a pack's scored tokens.
type Scored struct {
	LogProb, Entropy, Value, Squares []float32
	Chosen, IDs                      []float32 // several per token
}

// NewScored returns room for a head's outputs at n tokens.
func NewScored(h *model.Head, n int) *Scored {
	s := &Scored{}
	for _, x := range s.columns(h) {
		*x.to = make([]float32, n*x.width)
	}
	return s
}

// column are the outputs of one kind, width for each token.
type column struct {
	to    *[]float32
	width int
}

// columns are the outputs of a head, in order.
func (s *Scored) columns(h *model.Head) []column {
	var out []column
	if h.Tokens {
		out = append(out, column{&s.LogProb, 1}, column{&s.Entropy, 1})
	}
	if h.Value {
		out = append(out, column{&s.Value, 1})
	}
	if h.Squares {
		out = append(out, column{&s.Squares, 1})
	}
	if k := max(h.Top, h.Chosen); k > 0 {
		out = append(out, column{&s.Chosen, k})
	}
	if h.Top > 0 {
		out = append(out, column{&s.IDs, h.Top})
	}
	return out
}

// Scatter copies outputs to their tokens.
func (s *Scored) Scatter(tokens []int, h *model.Head, out *Scored) {
	from, to := s.columns(h), out.columns(h)
	for k := range from {
		for i, at := range tokens {
			w := to[k].width
			copy((*to[k].to)[at*w:][:w], (*from[k].to)[i*w:])
		}
	}
}

// Each calls f for every output at a token.
func (s *Scored) Each(h *model.Head, at int, f func(x *float32)) {
	for _, x := range s.columns(h) {
		for i := range x.width {
			f(&(*x.to)[at*x.width+i])
		}
	}
}

// ScoreTrace runs the head over the pack's scored tokens.
func (n *Net) ScoreTrace(h *model.Head, w *Parts, t *Trace, chunkSize int, temperature float64) (*Scored, error) {
	out := &Scored{}
	s := Scope{Dev: n.Dev}
	defer s.Free()
	heat := Upload(&s, []float32{float32(temperature)})
	weights, err := n.Here(&s, n.HeadInputs(h, w))
	if err != nil {
		return nil, err
	}
	for _, c := range t.Pack.Chunks(chunkSize) {
		at, target := Upload(&s, c.At), Upload(&s, c.Target, c.TargetDims()...)
		if s.Err != nil {
			return nil, s.Err
		}
		res, err := n.Score(h, false).Run(append(slices.Clone(weights), t.X, at, target, heat))
		if err != nil {
			return nil, err
		}
		s.Own(res...)
		if err := out.Read(h, res, c.To-c.From); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Read appends the head's outputs at n tokens.
func (s *Scored) Read(h *model.Head, from []*device.Array, n int) error {
	for i, dst := range s.columns(h) {
		var err error
		if *dst.to, err = appendRead(*dst.to, from[i], n*dst.width); err != nil {
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

// KeptOf selects what the backward pass of a head reads among the results of its forward pass: log-probs, entropies,
// values, logits and the logarithms of their exponentials' sums, those that the head has.
func KeptOf[T any](h *model.Head, res []T) []T {
	if !h.Tokens {
		return nil
	}
	return append([]T{res[1]}, res[len(res)-2:]...)
}

// minTemperature is the smallest divisor of logits: much smaller ones give infinity in
// float32.
const minTemperature = 1e-9

// CheckTemperature rejects invalid divisors of logits.
func CheckTemperature(t float64) error {
	if !(t >= minTemperature) || math.IsInf(t, 0) {
		return fmt.Errorf("temperature is %v, must be at least %v and finite", t, minTemperature)
	}
	return nil
}
