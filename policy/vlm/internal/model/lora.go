package model

import (
	. "github.com/gomlx/gomlx/core/graph"
)

// LoRA adds a low-rank product to linear maps of the blocks (Hu et al.,
// arXiv:2106.09685): y = W·x + b + Scale·B·(A·x), with A [rank, in] and B [out,
// rank]. Every other weight except a value head's is frozen.
type LoRA struct {
	Rank  int
	Scale float64
	Match func(module string) bool // by a map's name in transformers' module tree
}

// The suffixes that an adapter's two matrices add to their module's name.
const (
	LoraA = ".lora_A.weight"
	LoraB = ".lora_B.weight"
)

// The linear maps of a block. Several maps of the checkpoint may be stacked in one.
const (
	mapQKV = iota
	mapOut
	mapUp
	mapDown
	blockMapCount
)

// Adapters lists which maps of a block have adapters.
type Adapters struct {
	Scale float64
	Maps  [blockMapCount][]AdapterPart // stacked maps in their order; nil where the whole stack has none
}

// AdapterPart is one of the maps that are stacked.
type AdapterPart struct {
	Out int // rows of the map
	On  bool
}

// adapter are the two matrices of a map.
type adapter struct{ a, b *Node }

// slots appends the places of adapters to those of the other weights.
func (l *Adapters) slots(w *blockWeights, s []**Node) []**Node {
	if l == nil {
		return s
	}
	for m, parts := range l.Maps {
		if w.adapters[m] == nil {
			w.adapters[m] = make([]adapter, len(parts))
		}
		for i, p := range parts {
			if p.On {
				s = append(s, &w.adapters[m][i].a, &w.adapters[m][i].b)
			}
		}
	}
	return s
}

// project is a linear map of the block with its adapters.
func (b *Block) project(m int, w *blockWeights, x, matrix, bias *Node) *Node {
	return b.adapted(m, w, linear(x, matrix, bias), 1, func(ad adapter) *Node {
		return linear(linear(x, ad.a, nil), ad.b, nil)
	})
}

// adapted adds to y what the adapters give, each for the outputs of one of the stacked maps along an axis.
func (b *Block) adapted(m int, w *blockWeights, y *Node, axis int, of func(adapter) *Node) *Node {
	if b.Adapters == nil || b.Adapters.Maps[m] == nil {
		return y
	}
	var delta []*Node
	for i, p := range b.Adapters.Maps[m] {
		if p.On {
			delta = append(delta, MulScalar(of(w.adapters[m][i]), b.Adapters.Scale))
			continue
		}
		s := y.Shape().Clone()
		s.Dimensions[axis] = p.Out
		delta = append(delta, Zeros(y.Graph(), s))
	}
	if len(delta) == 1 {
		return Add(y, delta[0])
	}
	return Add(y, Concatenate(delta, axis))
}

// projectBack returns the gradients of project for x, the matrix and the bias,
// and stores those of the adapters in g.
func (b *Block) projectBack(m int, w, g *blockWeights, dy, x, matrix *Node, bias bool) (dx, dw, db *Node) {
	dx, dw, db = linearBack(dy, x, matrix, bias)
	if b.Adapters == nil {
		return dx, dw, db
	}
	from := 0
	for i, p := range b.Adapters.Maps[m] {
		if p.On {
			ad := w.adapters[m][i]
			part := MulScalar(columns(dy, from, from+p.Out), b.Adapters.Scale)
			low, dB, _ := linearBack(part, linear(x, ad.a, nil), ad.b, false)
			more, dA, _ := linearBack(low, x, ad.a, false)
			dx = Add(dx, more)
			g.adapters[m][i] = adapter{dA, dB}
		}
		from += p.Out
	}
	return dx, dw, db
}

// withAdapters adds the parameters of a block's adapters to its others.
func (c *Config) withAdapters(params []Param) []Param {
	if c.LoRA == nil {
		return params
	}
	for _, parts := range blockMaps(params) {
		for _, part := range parts {
			module := part.Module()
			if !c.LoRA.Match(module) {
				continue
			}
			a, b := matrix(module+LoraA, c.LoRA.Rank, part.Dims[1]), matrix(module+LoraB, part.Dims[0], c.LoRA.Rank)
			a.Adapter, b.Adapter, a.Init, b.Init = true, true, InitUniform, InitZero
			params = append(params, a, b)
		}
	}
	return params
}

// blockMaps lists the linear maps of a block in the order of Adapters.Maps: they
// are the matrices among its parameters.
func blockMaps(params []Param) (out [blockMapCount][]Stored) {
	m := 0
	for _, p := range params {
		if len(p.Dims) == 2 && !p.Adapter {
			out[m] = p.Parts
			m++
		}
	}
	return out
}

// adapters describes the adapters of a block with the given parameters, nil when
// there are none.
func (c *Config) adapters(params []Param) *Adapters {
	if c.LoRA == nil {
		return nil
	}
	l := &Adapters{Scale: c.LoRA.Scale}
	any := false
	for m, parts := range blockMaps(params) {
		some := false
		var list []AdapterPart
		for _, part := range parts {
			on := c.LoRA.Match(part.Module())
			list = append(list, AdapterPart{Out: part.Dims[0], On: on})
			some = some || on
		}
		if some {
			l.Maps[m], any = list, true
		}
	}
	if !any {
		return nil
	}
	return l
}

// Merge adds the adapters to the weights they adapt: W + Scale·B·A. It takes and
// returns the block's parameters, in their order.
func (b *Block) Merge(weights []*Node) []*Node {
	w := b.weights(weights)
	for m, matrix := range [blockMapCount]**Node{mapQKV: &w.qkv, mapOut: &w.out, mapUp: &w.up, mapDown: &w.down} {
		*matrix = b.adapted(m, w, *matrix, 0, func(ad adapter) *Node {
			return DotGeneral(ad.b, []int{1}, nil, ad.a, []int{0}, nil)
		})
	}
	return b.flatten(w)
}
