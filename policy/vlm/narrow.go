package vlm

import (
	"fmt"

	. "github.com/gomlx/gomlx/pkg/core/graph"

	"vagen/policy/vlm/internal/device"
)

// generationWeights returns the weights for generation. On an accelerator that computes in a narrower
// type than float32, these are copies of the decoder's matrices in that type: every
// decoding step reads all of them, and converting them each time would cost more than the
// step. The copies are kept until the weights change.
//
// On a CPU XLA converts such matrices back to float32 before it multiplies, so copies would
// gain little.
func (m *Model) generationWeights(r *replica) (*parts, error) {
	if !m.narrows() {
		return r.parts, nil
	}
	if m.narrow[r] == nil {
		if err := m.makeNarrow(r); err != nil {
			m.dropNarrow()
			return nil, fmt.Errorf("vlm: converting the weights to bfloat16: %w", err)
		}
	}
	return m.narrow[r], nil
}

func (m *Model) narrows() bool {
	return m.dev.Accelerator() && m.net.compute != m.actor.parts.embed[0].DType()
}

// makeNarrow copies the decoder's matrices.
func (m *Model) makeNarrow(r *replica) error {
	p := *r.parts
	var err error
	narrow := func(group []*device.Array) []*device.Array {
		if err != nil {
			return nil
		}
		var out []*device.Array
		out, err = r.net.narrowed(group)
		m.narrowed = append(m.narrowed, out...)
		return replaceMatrices(group, out)
	}
	p.embed, p.head, p.layers = narrow(p.embed), narrow(p.head), nil
	for _, l := range r.parts.layers {
		p.layers = append(p.layers, narrow(l))
	}
	if m.narrow == nil {
		m.narrow = map[*replica]*parts{}
	}
	m.narrow[r] = &p
	return err
}

// dropNarrow frees the copies that generationWeights made.
func (m *Model) dropNarrow() {
	device.FreeAll(m.narrowed...)
	m.narrow, m.narrowed = nil, nil
}

// narrowBytes is the size of generationWeights' copies.
func (m *Model) narrowBytes() int64 {
	if !m.narrows() {
		return 0
	}
	p := m.actor.parts
	var numbers int
	for _, group := range append([][]*device.Array{p.embed, p.head}, p.layers...) {
		for _, a := range matrices(group) {
			numbers += a.Size()
		}
	}
	return int64(numbers) * int64(m.net.compute.Size())
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
func (k *kernels) narrowed(group []*device.Array) ([]*device.Array, error) {
	in := matrices(group)
	if len(in) == 0 {
		return nil, nil
	}
	return k.program("narrow", func(in []*Node) []*Node {
		out := make([]*Node, len(in))
		for i, x := range in {
			out[i] = ConvertDType(x, k.compute)
		}
		return out
	}).Run(in)
}
