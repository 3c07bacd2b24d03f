package model

import (
	"slices"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
)

// Layer is a type of decoder layer. The layers of a model may be of several types. x is
// [tokens, hidden] in the type of computation, cos and sin are the rotary positions
// [tokens, rotary size/2], and weights are the nodes of Params, in its order. Layers of one type
// differ only in their weights: one program serves all of them.
type Layer interface {
	// Params lists the parameters of a layer whose names start with base.
	Params(base string) []Param
	// Merge adds adapters to the weights that they adapt. It takes and returns all weights.
	Merge(weights []*Node) []*Node

	// Forward runs packs of rows. What it returns for a token depends only on tokens before it
	// with the same segment of the layout.
	Forward(weights []*Node, x, cos, sin *Node, l *Layout) (y *Node, kept Kept)
	// Backward maps the gradient of Forward's output to that of x and to float32 gradients of
	// the weights. kept is Kept.Main, followed by Kept.Again or not.
	Backward(weights []*Node, x *Node, kept []*Node, cos, sin *Node, l *Layout, dy *Node) (dx *Node, grads []*Node)

	// Cache lists the arrays in which generation keeps what the layer has read.
	Cache() []CacheArray
	// Append reads new tokens of each row, x row by row, of which fresh [rows, length] bool
	// marks the real ones; the others follow them. It returns, for each array of the cache,
	// the new slots [rows, heads, length, width], or the state after the last real token of each row.
	// ends [rows], unless nil, are the tokens whose outputs y has; else it has all. Append may add kernels to use,
	// unless that is nil.
	Append(weights []*Node, x, cos, sin *Node, past *Past, fresh, ends *Node, use *StepKernels) (y *Node, cache []*Node)
	// Step reads one token of each row; what it returns for rows that may not see theirs is undefined. It returns, for
	// each array of the cache, the recent segment with the token's slot written, or the state after the token, which it
	// keeps in rows that are not live. It may add a kernel for its outputs to use.
	Step(weights []*Node, x, cos, sin *Node, past *Past, use *StepKernels) (y *Node, cache []*Node)

	// Floats counts the numbers that Forward keeps for tokens in groups of a length: Kept.Main
	// and Kept.Again.
	Floats(tokens, groups, length int) (main, again int64)
	// FLOPs counts the operations of a pass besides the products with matrices among the weights.
	FLOPs(p Pass) FLOPs
	// Work estimates the multiplications for a token of a row of this length.
	Work(length int) float64
}

// Kept are the activations that a layer's backward pass reads besides the layer's input.
type Kept struct {
	Main  []*Node
	Again []*Node // the backward pass computes them again, which is cheap, if they are left out
}

// CacheArray is one array of a layer's cache: entries of single tokens, or a state.
//
// Entries are in slots: the array is [rows, heads, slots, width]. There is a long prefix and a
// short recent segment, which decoding writes and which moves to the prefix from time to time.
// A state [rows, …] is replaced with every token, starts at zero and cannot be cut back.
type CacheArray struct {
	Slots bool
	Dims  []int        // heads and width, or those of a row's state
	DType dtypes.DType // dtypes.InvalidDType is the type of computation
}

// Shape returns the dimensions of the array for so many rows and, of entries, slots.
func (c CacheArray) Shape(rows, slots int) []int {
	if c.Slots {
		return []int{rows, c.Dims[0], slots, c.Dims[1]}
	}
	return append([]int{rows}, c.Dims...)
}

// Type returns the type of the array's numbers where compute is that of computation.
func (c CacheArray) Type(compute dtypes.DType) dtypes.DType {
	if c.DType == dtypes.InvalidDType {
		return compute
	}
	return c.DType
}

// Past is a layer's cache as nodes of a graph, by the arrays of Cache.
type Past struct {
	Prefix []*Node // of entries nil if nothing has been read; else, and of a state always, the array
	Recent []*Node // of entries in slots only

	Allow, RecentAllow *Node // [rows, slots] bool: which slots hold a token of the row
	At                 *Node // the recent slot that Step writes, a scalar int32, or slots of positions: see Block.stepTo
	Live               *Node // [rows] bool: rows in which Step changes states; nil is all
}

// Keep returns the state at an index of the cache after Step: next in live rows.
func (p *Past) Keep(at int, next *Node) *Node {
	if p.Live == nil {
		return next
	}
	return Where(p.Live, next, p.Prefix[at])
}

// The types of layers, by their names in config.json.
const (
	fullAttention   = "full_attention"
	linearAttention = "linear_attention" // of Qwen3.5, with a gated delta net
)

// KeepsState reports whether layers keep a state of what they have read, which cannot be cut back.
func (c *Config) KeepsState() bool { return c.Text.Linear != nil }

// Layers returns the decoder's layers. Those of one type are the same Layer.
func (c *Config) Layers(compute dtypes.DType) []Layer {
	made := map[string]Layer{fullAttention: c.TextBlock(compute)}
	if c.Text.Linear != nil {
		made[linearAttention] = newDeltaNet(c, compute)
	}
	out := slices.Repeat([]Layer{made[fullAttention]}, c.Text.Layers)
	for i, kind := range c.Text.Types {
		out[i] = made[kind]
	}
	return out
}

// Params is that of Layer.
func (b *Block) Params(base string) []Param { return b.params(base) }

// Cache is that of Layer.
func (b *Block) Cache() []CacheArray {
	one := CacheArray{Slots: true, Dims: []int{b.KVHeads, b.HeadDim}}
	return []CacheArray{one, one}
}

// segments returns the prefix and the recent segment of keys and values.
func (p *Past) segments() []CacheSegment {
	if p.Prefix[0] == nil {
		return nil
	}
	return []CacheSegment{{p.Prefix[0], p.Prefix[1], p.Allow}, {p.Recent[0], p.Recent[1], p.RecentAllow}}
}

// Append is that of Layer.
func (b *Block) Append(
	weights []*Node, x, cos, sin *Node, past *Past, fresh, ends *Node, use *StepKernels,
) (*Node, []*Node) {
	y, k, v := b.appendTo(weights, x, cos, sin, past.segments(), fresh, ends, use)
	return y, []*Node{k, v}
}

// Step is that of Layer.
func (b *Block) Step(weights []*Node, x, cos, sin *Node, past *Past, use *StepKernels) (*Node, []*Node) {
	s := past.segments()
	y, k, v := b.stepTo(weights, x, cos, sin, s[0], s[1], past.At)
	use.Block(b, weights, x, cos, sin, s[0], s[1], past.At, y, k, v)
	return y, []*Node{k, v}
}

// Floats counts the projection in queries, keys, values and gate, attention output, residual and feed-forward, and
// the attention probabilities.
func (b *Block) Floats(tokens, groups, length int) (main, again int64) {
	up := 2 * b.FF
	if b.GELU {
		up = b.FF
	}
	heads := 2*b.Heads + 2*b.KVHeads
	if b.Gated {
		heads += b.Heads
	}
	main = int64(tokens) * int64(heads*b.HeadDim+b.Hidden+up)
	return main, int64(groups) * int64(b.Heads) * int64(length) * int64(length)
}

// FLOPs counts the products of queries, keys and values.
func (b *Block) FLOPs(p Pass) FLOPs {
	n, past := int64(p.Tokens), int64(p.Past)
	one := 4 * int64(p.Rows) * int64(b.Heads*b.HeadDim)
	forward := FLOPs{Model: one * (n*past + n*(n+1)/2), Hardware: one * n * (past + n)}
	if !p.Train {
		return forward
	}
	f := FLOPs{3 * forward.Model, 3 * forward.Hardware}
	switch {
	case p.BlocksAgain:
		f.Hardware += forward.Hardware
	case p.AttentionAgain:
		f.Hardware += forward.Hardware / 2
	}
	return f
}

// Work counts products with weights, and attention, which grows with the length and costs
// about half as much again for its softmax.
func (b *Block) Work(length int) float64 {
	weights := b.Hidden*(b.Heads+2*b.KVHeads)*b.HeadDim + b.Heads*b.HeadDim*b.Hidden + 3*b.Hidden*b.FF
	return float64(weights) + 3*float64(length*b.Heads*b.HeadDim)
}
