package model

import (
	"slices"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/fused"
)

// StepKernels collects kernel calls for the blocks of a decoding step, or for a head.
type StepKernels []device.Kernel

// fusible reports whether kernels can compute these rows: few enough, unless weights are packed, and float32.
func (s StepKernels) fusible(x *Node, weights ...*Node) bool {
	if x.Shape().Dimensions[0] > fused.MaxRows && !slices.ContainsFunc(weights, s.unpacked) {
		return false
	}
	for _, n := range slices.Concat(weights, []*Node{x}) {
		if n.DType() != dtypes.Float32 {
			return false
		}
	}
	return true
}

// Delta adds a token of a gated delta rule. XLA passes over the state several times; the kernel takes it from memory once.
func (s *StepKernels) Delta(in deltaIn, live, state, o, after *Node) {
	if s == nil || live == nil {
		return
	}
	*s = append(*s, device.Kernel{Name: fused.DeltaStep, In: append(in.list(), live, state), Out: []*Node{o, after},
		Aliases: map[int]int{1: 6}})
}

// rule adds a gated delta rule over whole rows. in are those of deltaIn and the segments of the tokens, which give the
// outputs and, unless they are left out, the states before chunks; with the states before all tokens besides, the
// outputs and the states after all tokens; with the states before chunks and the gradient of the outputs, the
// gradients of deltaIn. Within a chunk, XLA takes each small product and elementwise operation from memory.
func (s *StepKernels) rule(in []*Node, out ...*Node) {
	if s != nil {
		*s = append(*s, device.Kernel{Name: fused.DeltaRule, In: in, Out: out})
	}
}

// attention adds softmax attention of whole rows: o is that of the queries q, grouped by key heads, to keys and
// values, where allow [groups, length, keys], unless nil, is set.
func (s *StepKernels) attention(q, k, v, allow, o *Node) {
	if q.DType() != dtypes.Float32 {
		return
	}
	in := []*Node{q, k, v}
	if allow != nil {
		in = append(in, allow)
	}
	*s = append(*s, device.Kernel{Name: fused.Attention, In: in, Out: []*Node{o}})
}

// scores adds the log-probs and entropies of a head, whose logits need not be stored then.
func (s *StepKernels) scores(normed, table, label, temperature *Node, o *HeadOutput) {
	if dim(normed, 0) < fused.ScoreRows || normed.DType() != dtypes.Float32 || table.DType() != dtypes.Float32 {
		return
	}
	*s = append(*s, device.Kernel{Name: fused.Scores, In: []*Node{normed, table, label, temperature},
		Out: []*Node{o.LogProb, o.Entropy}})
}

// Like makes products have the bits of so many rows, of which theirs are positions.
func (s *StepKernels) Like(rows int) {
	*s = append(*s, device.Kernel{Name: fused.Like, Config: []device.Setting{{Name: fused.RowBits, Value: int64(rows)}}})
}

// choice adds the choice of tokens, of which in are the logits, seeds, counts, parameters and, unless nil, the tokens
// that are left out and those that are given.
func (s *StepKernels) choice(by Sampler, in []*Node, id, logProb *Node) {
	has := bits(by.Greedy, by.TopK, by.TopP, by.MinP, in[4] != nil, in[5] != nil)
	in = present(in...)
	*s = append(*s, device.Kernel{Name: fused.Choice, In: in, Out: []*Node{id, logProb},
		Config: []device.Setting{{Name: "has", Value: has}}})
}

// bits has bit i where condition i is true; C has the order of a kernel's conditions, which are its attribute "has".
func bits(conditions ...bool) (all int64) {
	for i, on := range conditions {
		if on {
			all |= 1 << i
		}
	}
	return all
}

// hasKernel reports whether there is a kernel for a step of blocks of this kind.
func (b *Block) hasKernel() bool {
	return !b.LayerNorm && !b.GELU && !b.PlusOne && !b.Gated && b.Adapters == nil
}

// HasStepKernel reports whether a kernel computes a layer's step, given float32 and few rows.
func HasStepKernel(l Layer) bool {
	b, ok := l.(*Block)
	return ok && b.hasKernel()
}

// Block adds a block's step if the kernel supports it. Inputs and outputs are in
// the order of the kernel's arguments.
func (s *StepKernels) Block(
	b *Block, weights []*Node, x, cos, sin *Node, past, recent CacheSegment, at, y, k, v *Node,
) {
	if !b.hasKernel() || !s.fusible(x, slices.Concat(weights, []*Node{past.K, recent.K})...) {
		return
	}
	in := append([]*Node{x, cos, sin, past.K, past.V, past.Allow, recent.K, recent.V, recent.Allow, at}, weights...)
	*s = append(*s, device.Kernel{Name: fused.Block, In: in, Out: []*Node{y, k, v}, Aliases: map[int]int{1: 6, 2: 7},
		Config: b.settings()})
}

// large reports whether kernels compute the products of x with these weights as parts of a block, where weights are in
// float32.
func (s *StepKernels) large(x *Node, weights ...*Node) bool {
	if s == nil || x.DType() != dtypes.Float32 {
		return false
	}
	return !slices.ContainsFunc(weights, func(w *Node) bool {
		return w.DType() != dtypes.Float32 || s.unpacked(w) || !fused.WholeRows(rows(x), dim(w, 0), dim(w, 1))
	})
}

// opening adds a block's part before attention over whole rows, and its projection besides if that is kept.
func (s *StepKernels) opening(b *Block, w *blockWeights, l *Layout, x, cos, sin, q, k, v, qkv *Node) {
	if !b.hasKernel() || l.Index != nil || !s.large(x, w.qkv) {
		return
	}
	in, out := present(x, cos, sin, w.norm1, w.qkv, w.qkvB, w.qNorm, w.kNorm, l.Fresh), []*Node{q, k, v}
	if l.Kept {
		out = append(out, qkv)
	}
	*s = append(*s, device.Kernel{Name: fused.Opening, In: in, Out: out, Config: b.settings()})
}

// closing adds finish over whole rows. mixed may also be attention's output, which has the groups of a layout. fresh is
// that of a layout.
func (s *StepKernels) closing(b *Block, w *blockWeights, x, mixed, fresh *Node, out ...*Node) {
	if b.LayerNorm || b.GELU || b.Adapters != nil || !s.large(x, w.out, w.up, w.down) {
		return
	}
	in := present(x, mixed, w.out, w.outB, w.norm2, w.up, w.upB, w.down, w.downB, fresh)
	*s = append(*s, device.Kernel{Name: fused.Closing, In: in, Out: out, Config: b.settings()})
}

func present(in ...*Node) []*Node {
	return slices.DeleteFunc(in, func(n *Node) bool { return n == nil })
}

// settings are those of a block's kernels.
func (b *Block) settings() []device.Setting {
	has := bits(b.QKVBias, b.QKNorm, b.OutBias, b.MLPBias, b.PlusOne)
	return []device.Setting{{Name: "eps", Value: float32(b.Eps)}, {Name: "has", Value: has}}
}
