package vlm

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/net"
)

// generationWeights returns the weights for generation, on the replica's device. On an accelerator that computes in a narrower
// type than float32, these are copies of the decoder's matrices in that type: every
// decoding step reads all of them, and converting them each time would cost more than the
// step. The copies are kept until the weights change. Where weights are divided over the devices,
// they are copied, too, until all conversations have ended.
//
// On a CPU XLA converts such matrices back to float32 before it multiplies, so copies would
// gain little.
func (g *generator) generationWeights(r *weightsOn) (*net.Parts, error) {
	if !g.narrows() && !g.sharded {
		return r.parts, nil
	}
	if g.narrow[r] == nil {
		if err := g.makeNarrow(r); err != nil {
			g.dropNarrow()
			return nil, fmt.Errorf("vlm: copying the weights for generation: %w", err)
		}
	}
	return g.narrow[r], nil
}

func (g *generator) narrows() bool {
	return g.dev().Accelerator() && g.weights[0].net.Compute != g.weights[0].parts.Embed[0].DType()
}

// makeNarrow copies the decoder's matrices, and other weights that are on another device.
func (g *generator) makeNarrow(r *weightsOn) error {
	p := *r.parts
	var err error
	narrow := func(group []*device.Array) []*device.Array {
		if err != nil {
			return nil
		}
		s := net.Scope{Dev: r.net.Dev}
		defer s.Free()
		if group, err = r.net.Here(&s, group); err != nil {
			return nil
		}
		if g.sharded && !g.narrows() {
			g.keep(&s, func(*device.Array) bool { return true })
			return group
		}
		var out []*device.Array
		out, err = narrowed(r.net.Kernels, group)
		g.narrowed = append(g.narrowed, out...)
		g.keep(&s, func(a *device.Array) bool { return !isMatrix(a) })
		return replaceMatrices(group, out)
	}
	p.Embed, p.Head, p.Layers = narrow(p.Embed), narrow(p.Head), nil
	for _, l := range r.parts.Layers {
		p.Layers = append(p.Layers, narrow(l))
	}
	if g.narrow == nil {
		g.narrow = map[*weightsOn]*net.Parts{}
	}
	g.narrow[r] = &p
	return err
}

// keep moves the arrays that want selects from the scope to the copies for generation.
func (g *generator) keep(s *net.Scope, want func(*device.Array) bool) {
	var rest []*device.Array
	for _, a := range s.Arrays {
		if want(a) {
			g.narrowed = append(g.narrowed, a)
		} else {
			rest = append(rest, a)
		}
	}
	s.Arrays = rest
}

// dropNarrow frees the copies that generationWeights made.
func (g *generator) dropNarrow() {
	device.FreeAll(g.narrowed...)
	g.narrow, g.narrowed = nil, nil
}

// narrowBytes is the size of generationWeights' copies on a device. Of divided weights, it counts
// all, although some are on the device anyway.
func (g *generator) narrowBytes() (sum int64) {
	if !g.narrows() && !g.sharded {
		return 0
	}
	p := g.weights[0].parts
	for _, group := range append([][]*device.Array{p.Embed, p.Head}, p.Layers...) {
		for _, a := range group {
			switch {
			case g.narrows() && isMatrix(a):
				sum += int64(a.Size()) * int64(g.weights[0].net.Compute.Size())
			case g.sharded:
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
