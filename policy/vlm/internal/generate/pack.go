package generate

import (
	"fmt"
	"slices"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/fused"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/net"
)

// On a CPU a decoding step takes about as long as reading the weights. With Settings.Packed, steps read copies of the
// decoder's matrices in bfloat16 or int8 instead (model.PackMatrix), a half or a quarter of the bytes. Contexts are
// read with the weights themselves: that is bound by arithmetic, which is in float32 in both cases, and many rows of
// tokens share a weight. Adapters are merged into the copies: their products with few rows take longer than the matrices'.

// decodingWeights returns the weights that decoding steps read; w are those that contexts are read with.
func (g *Generator) decodingWeights(r *Weights, w *net.Parts) (*net.Parts, error) {
	if g.Packed == dtypes.InvalidDType {
		return w, nil
	}
	if p := g.packed[r]; p != nil {
		return p, nil
	}
	p, err := g.pack(r.Net, w)
	if err != nil {
		g.dropNarrow()
		return nil, fmt.Errorf("vlm: packing the weights for generation: %w", err)
	}
	g.packed[r] = p
	device.HugePages(g.Narrowed)
	return p, nil
}

// pack returns parts with the decoder's matrices packed. The head's is a copy even if it is the table of tokens, of
// which steps read single rows besides.
func (g *Generator) pack(n *net.Net, w *net.Parts) (*net.Parts, error) {
	p := *w
	p.Layers = nil
	for i, group := range (Programs{n, true}).merged().Groups.Layers {
		packed, err := g.packLayer(n, i, group.Params, w.Layers[i])
		if err != nil {
			return nil, err
		}
		p.Layers = append(p.Layers, packed)
	}
	params, head := n.Groups.Head.Params, w.Head
	if n.Spec.Tied {
		params, head = append(slices.Clone(params), n.Groups.Embed.Params...), append(slices.Clone(head), w.Embed...)
	}
	var err error
	p.Head, err = g.packGroup(n, params, head)
	return &p, err
}

// packLayer returns a layer's arrays, without adapters, with its matrices packed.
func (g *Generator) packLayer(
	n *net.Net, layer int, params []model.Param, arrays []*device.Array,
) ([]*device.Array, error) {
	if len(params) == len(arrays) {
		return g.packGroup(n, params, arrays)
	}
	merged, err := n.MergeAdapters(layer, len(params)).Run(arrays)
	if err != nil {
		return nil, err
	}
	out, err := g.packGroup(n, params, merged)
	for i, a := range merged {
		if err != nil || out[i] != a {
			a.Free()
		} else {
			g.Narrowed = append(g.Narrowed, a)
		}
	}
	return out, err
}

// merged are the programs of decoding steps: packed weights have no adapters.
func (n Programs) merged() Programs {
	if !n.Packed || n.Cfg.LoRA == nil {
		return n
	}
	cfg, one, k := *n.Cfg, *n.Net, *n.Kernels
	cfg.LoRA = nil
	k.Cfg, k.Layers = &cfg, cfg.Layers(n.Compute)
	one.Kernels, one.Groups = &k, cfg.Groups()
	return Programs{&one, true}
}

// packs reports whether a parameter is read packed: matrices are whose inputs can be, but adapters are small.
func packs(p model.Param, to dtypes.DType) bool {
	return len(p.Dims) == 2 && !p.Adapter && (to != dtypes.Int8 || p.Dims[1]%fused.Quad == 0)
}

// packGroup returns a group's arrays with its matrices packed.
func (g *Generator) packGroup(n *net.Net, params []model.Param, arrays []*device.Array) ([]*device.Array, error) {
	out := slices.Clone(arrays)
	for i, p := range params {
		if !packs(p, g.Packed) {
			continue
		}
		var err error
		pack := func(x *Node) *Node { return model.PackMatrix(x, g.Packed) }
		if out[i], err = g.converted(n, "pack "+g.Packed.String(), arrays[i], pack); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// PackedBytes is the size of packed copies of a net's decoder.
func PackedBytes(n *net.Net, to dtypes.DType) (sum int64) {
	if to == dtypes.InvalidDType {
		return 0
	}
	params := slices.Clone(n.Groups.Head.Params)
	if n.Spec.Tied {
		params = append(params, n.Groups.Embed.Params...)
	}
	for _, l := range n.Groups.Layers {
		params = append(params, l.Params...)
	}
	for _, p := range params {
		if !packs(p, to) {
			continue
		}
		panels, rows := (p.Dims[0]+fused.Panel-1)/fused.Panel, p.Dims[1]
		if to == dtypes.Int8 {
			rows += fused.Scales
		}
		sum += int64(panels*fused.Panel) * int64(rows*to.Size())
	}
	return sum
}

// unpack replaces packed weights by the matrices that they stand for.
func unpack(w []*Node, params []model.Param, kernels *model.StepKernels) []*Node {
	out := slices.Clone(w)
	for i, p := range params {
		if len(p.Dims) == 2 && w[i].Rank() == 3 {
			out[i] = kernels.Unpack(w[i], p.Dims[0])
		}
	}
	return out
}

// unpack replaces packed weights of the whole model.
func (p *stepIn) unpack(kernels *model.StepKernels) {
	for i, l := range p.w.layers {
		p.w.layers[i] = unpack(l, p.net.Groups.Layers[i].Params, kernels)
	}
	p.w.head = p.net.unpackHead(p.w.head, kernels)
}

func (n Programs) unpackHead(w model.HeadWeights, kernels *model.StepKernels) model.HeadWeights {
	if w.Table.Rank() == 3 {
		w.Table = kernels.Unpack(w.Table, n.Cfg.Text.Vocab)
	}
	return w
}

// tied reports whether the head of decoding steps reads the table of tokens.
func (n Programs) tied() bool { return n.Spec.Tied && !n.Packed }

// stepName is the name of a program of decoding steps.
func (n Programs) stepName(name string) string {
	if n.Packed {
		return name + " packed"
	}
	return name
}
