package generate

import (
	"fmt"
	"slices"

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
	convert := g.Narrows() || !g.Sharded
	to := func(x *Node) *Node { return ConvertDType(x, r.Net.Compute) }
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
		for i, a := range group {
			if convert && isMatrix(a) && err == nil {
				group[i], err = g.converted(r.Net, "narrow", a, to)
			}
		}
		s.Arrays = slices.DeleteFunc(s.Arrays, func(a *device.Array) bool {
			kept := slices.Contains(group, a)
			if kept {
				g.Narrowed = append(g.Narrowed, a)
			}
			return kept
		})
		return group
	}
	p.Embed, p.Head, p.Layers = narrow(p.Embed), narrow(p.Head), nil
	for _, l := range r.Parts.Layers {
		p.Layers = append(p.Layers, narrow(l))
	}
	g.Narrow[r] = &p
	return err
}

// converted returns a copy of an array for generation, as a program makes it.
func (g *Generator) converted(
	n *net.Net, program string, a *device.Array, f func(x *Node) *Node,
) (*device.Array, error) {
	out, err := n.Program(program, func(in []*Node) []*Node { return []*Node{f(in[0])} }).Run([]*device.Array{a})
	if err != nil {
		return nil, err
	}
	g.Narrowed = append(g.Narrowed, out...)
	return out[0], nil
}

// dropNarrow frees the copies of weights.
func (g *Generator) dropNarrow() {
	device.FreeAll(g.Narrowed...)
	g.Narrowed = nil
	clear(g.Narrow)
	clear(g.packed)
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

func isMatrix(a *device.Array) bool { return len(a.Dims()) > 1 }
