package generate

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/net"
)

// GenerationWeights returns the weights for generation, on the replica's device. On an accelerator that computes in a narrower
// type than float32, these are copies of the decoder's matrices in that type: every
// decoding step reads all of them, and converting them each time would cost more than the
// step. The copies are kept until the weights change. Where weights are divided over the devices,
// they are copied, too, until all conversations have ended.
//
// On a CPU XLA converts such matrices back to float32 before it multiplies, so copies would
// gain little.
func (g *Generator) GenerationWeights(r *Weights) (*net.Parts, error) {
	if !g.Narrows() && !g.Sharded {
		return r.Parts, nil
	}
	if g.Narrow[r] == nil {
		if err := g.MakeNarrow(r); err != nil {
			g.dropNarrow()
			return nil, fmt.Errorf("vlm: copying the weights for generation: %w", err)
		}
	}
	return g.Narrow[r], nil
}

func (g *Generator) Narrows() bool {
	return g.dev().Accelerator() && g.Weights[0].Net.Compute != g.Weights[0].Parts.Embed[0].DType()
}

// MakeNarrow copies the decoder's matrices, and other weights that are on another device.
func (g *Generator) MakeNarrow(r *Weights) error {
	p := *r.Parts
	var err error
	narrow := func(group []*device.Array) []*device.Array {
		if err != nil {
			return nil
		}
		s := net.Scope{Dev: r.Net.Dev}
		defer s.Free()
		if group, err = r.Net.Here(&s, group); err != nil {
			return nil
		}
		if g.Sharded && !g.Narrows() {
			g.keep(&s, func(*device.Array) bool { return true })
			return group
		}
		var out []*device.Array
		out, err = narrowed(r.Net.Kernels, group)
		g.Narrowed = append(g.Narrowed, out...)
		g.keep(&s, func(a *device.Array) bool { return !isMatrix(a) })
		return replaceMatrices(group, out)
	}
	p.Embed, p.Head, p.Layers = narrow(p.Embed), narrow(p.Head), nil
	for _, l := range r.Parts.Layers {
		p.Layers = append(p.Layers, narrow(l))
	}
	if g.Narrow == nil {
		g.Narrow = map[*Weights]*net.Parts{}
	}
	g.Narrow[r] = &p
	return err
}

// keep moves the arrays that want selects from the scope to the copies for generation.
func (g *Generator) keep(s *net.Scope, want func(*device.Array) bool) {
	var rest []*device.Array
	for _, a := range s.Arrays {
		if want(a) {
			g.Narrowed = append(g.Narrowed, a)
		} else {
			rest = append(rest, a)
		}
	}
	s.Arrays = rest
}

// dropNarrow frees the copies of weights.
func (g *Generator) dropNarrow() {
	device.FreeAll(g.Narrowed...)
	g.Narrow, g.Narrowed, g.packed = nil, nil, nil
}

// NarrowBytes is the size of generationWeights' and packed copies on a device. Of divided weights, it counts
// all, although some are on the device anyway.
func (g *Generator) NarrowBytes() int64 {
	sum := PackedBytes(g.Weights[0].Net, g.Packed)
	if !g.Narrows() && !g.Sharded {
		return sum
	}
	p := g.Weights[0].Parts
	for _, group := range append([][]*device.Array{p.Embed, p.Head}, p.Layers...) {
		for _, a := range group {
			switch {
			case g.Narrows() && isMatrix(a):
				sum += int64(a.Size()) * int64(g.Weights[0].Net.Compute.Size())
			case g.Sharded:
				sum += a.Bytes()
			}
		}
	}
	return sum
}

// matrices are the arrays of a group without norms and biases.
func matrices(group []*device.Array) (out []*device.Array) {
	for _, a := range group {
		if isMatrix(a) {
			out = append(out, a)
		}
	}
	return out
}

func isMatrix(a *device.Array) bool { return len(a.Dims()) > 1 }

// replaceMatrices returns the group with its matrices replaced by others.
func replaceMatrices(group, others []*device.Array) []*device.Array {
	out := make([]*device.Array, len(group))
	for i, a := range group {
		if out[i] = a; isMatrix(a) && len(others) > 0 {
			out[i], others = others[0], others[1:]
		}
	}
	return out
}

// narrowed returns a group's matrices in the type of computation.
func narrowed(k *net.Kernels, group []*device.Array) ([]*device.Array, error) {
	in := matrices(group)
	if len(in) == 0 {
		return nil, nil
	}
	return k.Program("narrow", func(in []*Node) []*Node {
		out := make([]*Node, len(in))
		for i, x := range in {
			out[i] = ConvertDType(x, k.Compute)
		}
		return out
	}).Run(in)
}
