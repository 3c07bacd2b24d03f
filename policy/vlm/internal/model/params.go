package model

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
)

// Param is one tensor as the graphs use it. Several tensors of a checkpoint may
// be stacked in it, row under row: q, k and v, or gate and up.
type Param struct {
	Parts []Stored
	Dims  []int
	Init  Init

	Frozen  bool // takes no gradient
	Adapter bool // one half of a low-rank adapter
}

// Stored is a tensor of the checkpoint: its name in transformers' module tree,
// and its dimensions there.
type Stored struct {
	Name string
	Dims []int
}

// Init is the initialisation of a new parameter.
type Init uint8

// The initialisations.
const (
	InitNormal Init = iota // normal, with the config's standard deviation
	InitOne
	InitZero
	InitUniform // between ±1/√(inputs), as PEFT initialises the first half of an adapter
	InitDecay   // logarithms of numbers that are uniform in (0, 16], as transformers initialises a delta net
)

// Module is the name of the module that the part is the weight of.
func (p Stored) Module() string { return strings.TrimSuffix(p.Name, ".weight") }

// Size is the number of elements of the part.
func (p Stored) Size() int { return product(p.Dims) }

// Size is the number of elements of the parameter.
func (p Param) Size() int { return product(p.Dims) }

// Divide calls f with every part and its share of the parameter's values, in order.
func (p Param) Divide(values []float32, f func(part Stored, values []float32) error) error {
	for _, part := range p.Parts {
		n := part.Size()
		if err := f(part, values[:n]); err != nil {
			return err
		}
		values = values[n:]
	}
	return nil
}

// EachPart visits the parts of all parameters, each with its parameter.
func EachPart(groups []*Group) iter.Seq2[Param, Stored] {
	return func(yield func(Param, Stored) bool) {
		for _, g := range groups {
			for _, p := range g.Params {
				for _, part := range p.Parts {
					if !yield(p, part) {
						return
					}
				}
			}
		}
	}
}

func product(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}

// Group is a set of parameters that are passed to the graphs together.
type Group struct {
	Name   string
	Params []Param
}

// Size is the number of elements of the group.
func (g Group) Size() int {
	n := 0
	for _, p := range g.Params {
		n += p.Size()
	}
	return n
}

// Trained lists the parameters that take gradients by index.
func (g *Group) Trained() []int {
	var out []int
	for i, p := range g.Params {
		if !p.Frozen {
			out = append(out, i)
		}
	}
	return out
}

// Roles has something for each part of a model.
type Roles[T any] struct {
	Patch     T   // vision: patch embedding and positions
	Blocks    []T // vision blocks
	Merger    T   // vision: merger into the decoder's width
	Deepstack []T // Qwen3-VL: mergers of inner blocks
	Embed     T   // token embedding
	Layers    []T // decoder layers
	Head      T   // final norm, output head unless tied or a critic
	Score     T   // value head
}

// Like returns roles with as many blocks, mergers of inner blocks and layers.
func Like[T, U any](r *Roles[U]) *Roles[T] {
	return &Roles[T]{Blocks: make([]T, len(r.Blocks)), Deepstack: make([]T, len(r.Deepstack)),
		Layers: make([]T, len(r.Layers))}
}

// All lists the parts in the order of the forward pass.
func (r *Roles[T]) All() []*T {
	out := []*T{&r.Patch}
	each := func(list []T) {
		for i := range list {
			out = append(out, &list[i])
		}
	}
	each(r.Blocks)
	out = append(out, &r.Merger)
	each(r.Deepstack)
	out = append(out, &r.Embed)
	each(r.Layers)
	return append(out, &r.Head, &r.Score)
}

// Groups are all parameters of a model.
type Groups struct{ Roles[Group] }

// All lists the groups that have parameters, in the order of the forward pass.
func (g *Groups) All() []*Group {
	return slices.DeleteFunc(g.Roles.All(), func(x *Group) bool { return len(x.Params) == 0 })
}

func vector(name string, n int, init Init) Param {
	return Param{Parts: []Stored{{name, []int{n}}}, Dims: []int{n}, Init: init}
}

// matrix is a matrix [out, in], or a convolution's weights.
func matrix(name string, dims ...int) Param {
	return Param{Parts: []Stored{{name, dims}}, Dims: dims}
}

// stack puts matrices [out, in] (or vectors, with in 0) on top of each other, by rows.
func stack(in int, init Init, parts ...Stored) Param {
	total := 0
	for _, p := range parts {
		total += p.Dims[0]
	}
	dims := []int{total}
	if in > 0 {
		dims = append(dims, in)
	}
	return Param{Parts: parts, Dims: dims, Init: init}
}

// TextBlock is the shape of a decoder layer.
func (c *Config) TextBlock(compute dtypes.DType) *Block {
	t := &c.Text
	return c.block(Block{
		Hidden: t.Hidden, Heads: t.Heads, KVHeads: t.KVHeads, HeadDim: t.HeadDim, FF: t.FF, Eps: t.Eps,
		QKVBias: t.QKVBias, OutBias: t.OutBias, MLPBias: t.MLPBias, QKNorm: t.QKNorm, Causal: true, Compute: compute,
		PlusOne: t.PlusOne, Gated: t.Gated,
	}, c.textParams, c.firstLayer(fullAttention))
}

// block completes a block with its parameters, given those without adapters, and what the names in the first such block
// start with.
func (c *Config) block(b Block, params func(base string) []Param, first string) *Block {
	b.Adapters = c.adapters(params(first))
	b.params = func(base string) []Param { return c.withAdapters(params(base)) }
	return &b
}

// firstLayer is what the names of the parameters of the first layer of a type start with.
func (c *Config) firstLayer(kind string) string {
	return fmt.Sprintf("%slayers.%d.", c.decoderPrefix(), max(0, slices.Index(c.Text.Types, kind)))
}

// visionEps is fixed in both vision towers, whatever the config says.
const visionEps = 1e-6

// VisionBlock is the shape of a vision block.
func (c *Config) VisionBlock(compute dtypes.DType) *Block {
	v := c.Vision
	return c.block(Block{
		Hidden: v.Hidden, Heads: v.Heads, KVHeads: v.Heads, HeadDim: v.HeadDim(), FF: v.FF, Eps: visionEps,
		LayerNorm: c.Family.learnedPositions(), GELU: c.Family.learnedPositions(),
		QKVBias: true, OutBias: true, MLPBias: true, Compute: compute,
	}, c.visionParams, visionPrefix+"blocks.0.")
}

// Groups lists the parameters of the model.
func (c *Config) Groups() *Groups {
	g := &Groups{}
	if c.Vision != nil {
		c.visionGroups(g)
	}
	base := c.decoderPrefix()
	g.Embed = Group{"embed", []Param{matrix(base+"embed_tokens.weight", c.Text.Vocab, c.Text.Hidden)}}
	for i, l := range c.Layers(dtypes.Float32) {
		g.Layers = append(g.Layers, Group{fmt.Sprintf("layer %d", i), l.Params(fmt.Sprintf("%slayers.%d.", base, i))})
	}
	g.Head = Group{"head", []Param{c.norm(base+"norm.weight", c.Text.Hidden)}}
	if !c.Critic && !c.Tied {
		g.Head.Params = append(g.Head.Params, matrix("lm_head.weight", c.Text.Vocab, c.Text.Hidden))
	}
	if c.Critic || c.Value {
		g.Score = Group{"value head", []Param{matrix("score.weight", 1, c.Text.Hidden), vector("score.bias", 1, InitZero)}}
	}
	c.freeze(g)
	return g
}

// freeze marks the parameters that take no gradient: all whose parts Frozen
// names, and with adapters all but these and the value head.
func (c *Config) freeze(g *Groups) {
	if c.LoRA == nil && c.Frozen == nil {
		return
	}
	for _, group := range g.All() {
		for i := range group.Params {
			p := &group.Params[i]
			named := c.Frozen != nil
			for _, part := range p.Parts {
				named = named && c.Frozen(part.Name)
			}
			p.Frozen = named || c.LoRA != nil && !p.Adapter && group != &g.Score
		}
	}
}

const visionPrefix = "model.visual."

func (c *Config) decoderPrefix() string {
	if c.Vision != nil {
		return "model.language_model."
	}
	return "model."
}

func (c *Config) textParams(base string) []Param {
	t := &c.Text
	q, kv := t.Heads*t.HeadDim, t.KVHeads*t.HeadDim
	rows := q
	if t.Gated {
		rows *= 2 // of each head: query, gate
	}
	part := func(name string, dims ...int) Stored { return Stored{base + name, dims} }
	p := []Param{
		c.norm(base+"input_layernorm.weight", t.Hidden),
		stack(t.Hidden, InitNormal, part("self_attn.q_proj.weight", rows, t.Hidden),
			part("self_attn.k_proj.weight", kv, t.Hidden), part("self_attn.v_proj.weight", kv, t.Hidden)),
	}
	if t.QKVBias {
		p = append(p, stack(0, InitZero, part("self_attn.q_proj.bias", rows), part("self_attn.k_proj.bias", kv),
			part("self_attn.v_proj.bias", kv)))
	}
	if t.QKNorm {
		p = append(p, c.norm(base+"self_attn.q_norm.weight", t.HeadDim), c.norm(base+"self_attn.k_norm.weight", t.HeadDim))
	}
	p = append(p, matrix(base+"self_attn.o_proj.weight", t.Hidden, q))
	if t.OutBias {
		p = append(p, vector(base+"self_attn.o_proj.bias", t.Hidden, InitZero))
	}
	return append(p, c.mlpParams(base)...)
}

// norm is the weight of a norm of the decoder over n features.
func (c *Config) norm(name string, n int) Param {
	if c.Text.PlusOne {
		return vector(name, n, InitZero)
	}
	return vector(name, n, InitOne)
}

// mlpParams are a decoder layer's feed-forward network and the norm before it.
func (c *Config) mlpParams(base string) []Param {
	t := &c.Text
	part := func(name string, dims ...int) Stored { return Stored{base + name, dims} }
	p := append([]Param{c.norm(base+"post_attention_layernorm.weight", t.Hidden)},
		stack(t.Hidden, InitNormal, part("mlp.gate_proj.weight", t.FF, t.Hidden), part("mlp.up_proj.weight", t.FF, t.Hidden)))
	if t.MLPBias {
		p = append(p, stack(0, InitZero, part("mlp.gate_proj.bias", t.FF), part("mlp.up_proj.bias", t.FF)))
	}
	p = append(p, matrix(base+"mlp.down_proj.weight", t.Hidden, t.FF))
	if t.MLPBias {
		p = append(p, vector(base+"mlp.down_proj.bias", t.Hidden, InitZero))
	}
	return p
}

func (c *Config) visionGroups(g *Groups) {
	v, base := c.Vision, visionPrefix
	patch := matrix(base+"patch_embed.proj.weight", v.Hidden, v.Channels, v.Temporal, v.Patch, v.Patch)
	g.Patch = Group{"patch", []Param{patch}}
	if c.Family.learnedPositions() {
		g.Patch.Params = append(g.Patch.Params, vector(base+"patch_embed.proj.bias", v.Hidden, InitZero),
			matrix(base+"pos_embed.weight", v.Positions, v.Hidden))
	}
	block := c.VisionBlock(dtypes.Float32)
	for i := range v.Depth {
		g.Blocks = append(g.Blocks, Group{fmt.Sprintf("vision block %d", i),
			block.Params(fmt.Sprintf("%sblocks.%d.", base, i))})
	}
	cell := v.Merge * v.Merge * v.Hidden
	if c.Family.learnedPositions() {
		g.Merger = Group{"merger", mergerParams(base+"merger.", v.Hidden, cell, v.Out)}
		for i := range v.Deepstack {
			g.Deepstack = append(g.Deepstack, Group{fmt.Sprintf("deepstack %d", i),
				mergerParams(fmt.Sprintf("%sdeepstack_merger_list.%d.", base, i), cell, cell, v.Out)})
		}
		return
	}
	g.Merger = Group{"merger", slices.Concat([]Param{vector(base+"merger.ln_q.weight", v.Hidden, InitOne)},
		affine(base+"merger.mlp.0", cell, cell), affine(base+"merger.mlp.2", v.Out, cell))}
}

// affine are a linear map with a bias.
func affine(name string, out, in int) []Param {
	return []Param{matrix(name+".weight", out, in), vector(name+".bias", out, InitZero)}
}

// layerNormParams are a norm with a bias.
func layerNormParams(name string, n int) []Param {
	return []Param{vector(name+".weight", n, InitOne), vector(name+".bias", n, InitZero)}
}

// mergerParams are those of a Qwen3-VL merger: norm with bias over norm
// features, then two linear maps.
func mergerParams(base string, norm, cell, out int) []Param {
	return slices.Concat(layerNormParams(base+"norm", norm), affine(base+"linear_fc1", cell, cell),
		affine(base+"linear_fc2", out, cell))
}

func (c *Config) visionParams(base string) []Param {
	v := c.Vision
	h := v.Hidden
	part := func(name string, dims ...int) Stored { return Stored{base + name, dims} }
	attn := append(affine(base+"attn.qkv", 3*h, h), affine(base+"attn.proj", h, h)...)
	if c.Family.learnedPositions() {
		return slices.Concat(layerNormParams(base+"norm1", h), attn, layerNormParams(base+"norm2", h),
			affine(base+"mlp.linear_fc1", v.FF, h), affine(base+"mlp.linear_fc2", h, v.FF))
	}
	return slices.Concat([]Param{vector(base+"norm1.weight", h, InitOne)}, attn, []Param{
		vector(base+"norm2.weight", h, InitOne),
		stack(h, InitNormal, part("mlp.gate_proj.weight", v.FF, h), part("mlp.up_proj.weight", v.FF, h)),
		stack(0, InitZero, part("mlp.gate_proj.bias", v.FF), part("mlp.up_proj.bias", v.FF)),
	}, affine(base+"mlp.down_proj", h, v.FF))
}
