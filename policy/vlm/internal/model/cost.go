package model

import "github.com/gomlx/compute/dtypes"

// Pass is a pass of the decoder over rows of tokens without images.
type Pass struct {
	Rows   int
	Tokens int // per row
	Past   int // per row: tokens in the cache, to which those of the pass attend, too
	Logits int // per row: tokens whose logits are computed

	Train bool // forward and backward pass
	// AttentionAgain and BlocksAgain compute the products of queries and keys, or all of a
	// layer, a second time for the backward pass.
	AttentionAgain, BlocksAgain bool
}

// FLOPs counts the floating-point operations of a pass's matrix products; a multiplication
// and an addition are two. Norms, softmax and other operations on single numbers are not
// counted.
type FLOPs struct {
	Model    int64 // those that the result depends on; a token attends to itself and earlier ones only
	Hardware int64 // those executed: also masked products of attention, and those computed again
}

// Plus returns the sum of both.
func (f FLOPs) Plus(o FLOPs) FLOPs { return FLOPs{f.Model + o.Model, f.Hardware + o.Hardware} }

// FLOPs counts the operations of a pass. For n tokens a matrix of p numbers takes 2·p·n forward,
// as many for the gradient of its input, and as many for its own if it is trained. Attention
// of a query over k keys takes 2·k·d for the scores and as many for the values, in each of the
// heads of width d, and twice that backward.
func (c *Config) FLOPs(p Pass) FLOPs {
	g, tokens := c.Groups(), int64(p.Rows)*int64(p.Tokens)
	var f FLOPs
	add := func(all, trained, tokens int64) {
		n := 2 * all * tokens
		if p.Train {
			n += 2 * (all + trained) * tokens
		}
		f = f.Plus(FLOPs{n, n})
	}
	for i := range g.Layers {
		all, trained := matrixNumbers(&g.Layers[i])
		add(all, trained, tokens)
		if p.BlocksAgain {
			f.Hardware += 2 * all * tokens
		}
	}
	for _, l := range c.Layers(dtypes.Float32) {
		f = f.Plus(l.FLOPs(p))
	}
	all, trained := matrixNumbers(c.heads(g)...)
	add(all, trained, int64(p.Rows)*int64(p.Logits))
	return f
}

// matrixNumbers counts the numbers of the groups' matrices, and of those that are trained.
func matrixNumbers(groups ...*Group) (all, trained int64) {
	for _, g := range groups {
		for _, p := range g.Params {
			if len(p.Dims) < 2 {
				continue
			}
			all += int64(p.Size())
			if !p.Frozen {
				trained += int64(p.Size())
			}
		}
	}
	return all, trained
}

// heads are the groups of the output head, which may be the embedding, and of the value head.
func (c *Config) heads(g *Groups) []*Group {
	if c.Tied && !c.Critic {
		return []*Group{&g.Head, &g.Score, &g.Embed}
	}
	return []*Group{&g.Head, &g.Score}
}

// DecoderNumbers counts the numbers of matrices and of vectors that every pass of the decoder
// reads: layers and heads. Of an embedding that is not the output head a pass reads only
// the rows of its tokens.
func (c *Config) DecoderNumbers() (matrices, vectors int64) {
	g := c.Groups()
	groups := c.heads(g)
	for i := range g.Layers {
		groups = append(groups, &g.Layers[i])
	}
	matrices, _ = matrixNumbers(groups...)
	for _, x := range groups {
		vectors += int64(x.Size())
	}
	return matrices, vectors - matrices
}

// CacheBytes is the size of a row's cache with so many slots: of keys and values, and of states,
// which do not grow with the slots.
func (c *Config) CacheBytes(slots int, compute dtypes.DType) (sum int64) {
	for _, l := range c.Layers(compute) {
		for _, a := range l.Cache() {
			sum += int64(product(a.Shape(1, slots))) * int64(a.Type(compute).Size())
		}
	}
	return sum
}

// CompilerBytes is the memory that XLA's compiler needs for programs which train the layers, beyond that of blocks:
// those of delta nets have many operations. It was measured on a CPU with two cores.
func (c *Config) CompilerBytes() int64 {
	if c.Text.Linear == nil {
		return 0
	}
	return 120_000_000
}

// Work estimates the multiplications of all layers for a token of a row of this length.
func (c *Config) Work(length int) (sum float64) {
	for _, l := range c.Layers(dtypes.Float32) {
		sum += l.Work(length)
	}
	return sum
}

// TrainedNumbers counts the numbers of trained parameters of the decoder, the embedding included.
func (c *Config) TrainedNumbers() (n int64) {
	g := c.Groups()
	groups := []*Group{&g.Embed, &g.Head, &g.Score}
	for i := range g.Layers {
		groups = append(groups, &g.Layers[i])
	}
	for _, x := range groups {
		for _, i := range x.Trained() {
			n += int64(x.Params[i].Size())
		}
	}
	return n
}
