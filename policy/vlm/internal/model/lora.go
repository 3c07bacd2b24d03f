package model

import (
	"github.com/gomlx/compute/dtypes"
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

// mergeRows is the number of rows from which adapters are added to the matrix before the product. That costs a pass
// over the matrix; products with the small matrices cost a pass over the rows, and are slow because they are narrow.
const mergeRows = 256

// merges reports whether a product with so many rows is one with the merged matrix. In a narrower type than float32 small
// changes of a weight would be lost.
func (b *Block) merges(m int, x, matrix *Node) bool {
	return b.adapted(m) && rows(x) >= mergeRows && x.DType() == dtypes.Float32 && matrix.DType() == dtypes.Float32
}

func (b *Block) adapted(m int) bool { return b.Adapters != nil && b.Adapters.Maps[m] != nil }

// project is a linear map of the block with its adapters.
func (b *Block) project(m int, w *blockWeights, x, matrix, bias *Node) *Node {
	if b.merges(m, x, matrix) {
		return linear(x, b.merged(m, w, matrix), bias)
	}
	y := linear(x, matrix, bias)
	if !b.adapted(m) {
		return y
	}
	return Add(y, b.stacked(m, w, 1, func(ad adapter, p AdapterPart) *Node {
		if !p.On {
			return Zeros(x.Graph(), shape(x.DType(), rows(x), p.Out))
		}
		return linear(linear(x, ad.a, nil), ad.b, nil)
	}))
}

// merged is a matrix with its adapters: W + Scale·B·A.
func (b *Block) merged(m int, w *blockWeights, matrix *Node) *Node {
	return Add(matrix, b.stacked(m, w, 0, func(ad adapter, p AdapterPart) *Node {
		if !p.On {
			return Zeros(matrix.Graph(), shape(matrix.DType(), p.Out, dim(matrix, 1)))
		}
		return DotGeneral(ad.b, []int{1}, nil, ad.a, []int{0}, nil)
	}))
}

// stacked joins what the adapters of a map's parts add along an axis; those that are on are multiplied by Scale.
func (b *Block) stacked(m int, w *blockWeights, axis int, of func(adapter, AdapterPart) *Node) *Node {
	var all []*Node
	for i, p := range b.Adapters.Maps[m] {
		n := of(w.adapters[m][i], p)
		if p.On {
			n = MulScalar(n, b.Adapters.Scale)
		}
		all = append(all, n)
	}
	if len(all) == 1 {
		return all[0]
	}
	return Concatenate(all, axis)
}

// projectBack returns the gradients of project for x, the matrix and the bias,
// and stores those of the adapters in g.
func (b *Block) projectBack(m int, w, g *blockWeights, dy, x, matrix *Node, bias bool) (dx, dw, db *Node) {
	merges := b.merges(m, x, matrix)
	if merges {
		matrix = b.merged(m, w, matrix)
	}
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
			if !merges {
				dx = Add(dx, more)
			}
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
func blockMaps(params []Param) (out [blockMapCount][]Part) {
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
		if b.adapted(m) {
			*matrix = b.merged(m, w, *matrix)
		}
	}
	return b.flatten(w)
}
