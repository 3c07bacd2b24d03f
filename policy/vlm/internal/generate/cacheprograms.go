package generate

import (
	"fmt"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/net"
)

// flush: the cache's prefix, its recent segments, at → the prefix with the recent segments written
// at that slot.
func (n Programs) flush() *device.Program {
	return n.Program("flush", func(in []*Node) []*Node {
		a := net.Args{In: in}
		out, recent := n.readArrays(&a)
		for i, x := range recent {
			if x != nil {
				out[i] = model.WriteSlots(out[i], x, in[len(in)-1])
			}
		}
		return out
	})
}

// rowsAt returns copies of the arrays' rows at the index; where it is −1, of the rows of others, of which there are as
// many or none. With slots above 0 the arrays are the cache's prefix, which is padded to that number.
func (n Programs) rowsAt(arrays, others []*device.Array, index []int32, slots int) ([]*device.Array, error) {
	at, err := device.Put(n.Dev, index)
	if err != nil {
		return nil, err
	}
	defer at.Free()
	return n.gatherRows(slots, len(others) > 0).Run(append(slices.Concat(arrays, others), at))
}

// gatherRows: arrays [from, …], if more is set as many [rows, …], index [rows] → rows of the former at
// the index, with slots padded to that number unless it is 0; where the index is −1, rows of the latter.
// With slots, the arrays are the cache's prefix.
func (n Programs) gatherRows(slots int, more bool) *device.Program {
	return n.Program(fmt.Sprintf("gather rows %d %v", slots, more), func(in []*Node) []*Node {
		a, index := net.Args{In: in[:len(in)-1]}, in[len(in)-1]
		half := len(a.In)
		if more {
			half /= 2
		}
		from := a.Next(half)
		at := Reshape(Max(index, ZerosLike(index)), index.Shape().Size(), 1)
		out := make([]*Node, half)
		for i, x := range from {
			out[i] = Gather(x, at)
			if slots > 0 && n.Cache[i].Slots {
				out[i] = lengthened(out[i], slots)
			}
			if more {
				out[i] = Where(GreaterOrEqual(index, ZerosLike(index)), out[i], a.One())
			}
		}
		return out
	})
}

// lengthened pads x [rows, heads, length, d] with zeros to slots slots.
func lengthened(x *Node, slots int) *Node {
	d := x.Shape().Dimensions
	if d[2] == slots {
		return x
	}
	pad := Zeros(x.Graph(), shapes.Make(x.DType(), d[0], d[1], slots-d[2], d[3]))
	return Concatenate([]*Node{x, pad}, 2)
}

// grow: the cache's prefix → the same with so many slots.
func (n Programs) grow(slots int) *device.Program {
	return n.Program(fmt.Sprintf("grow %d", slots), func(in []*Node) []*Node {
		out := slices.Clone(in)
		for i, x := range n.Cache {
			if x.Slots {
				out[i] = lengthened(in[i], slots)
			}
		}
		return out
	})
}

// compactRow: the cache's prefix, its recent segments, index [slots], row [1] → that row of the prefix, whose slots are
// those of prefix and recent segment at the index.
func (n Programs) compactRow() *device.Program {
	return n.Program("compact row", func(in []*Node) []*Node {
		a, index, at := net.Args{In: in}, in[len(in)-2], in[len(in)-1]
		out, recent := n.readArrays(&a)
		for i, x := range recent {
			out[i] = Gather(out[i], Reshape(at, 1, 1))
			if x != nil {
				all := Concatenate([]*Node{out[i], Gather(x, Reshape(at, 1, 1))}, 2)
				bySlot := Gather(TransposeAllDims(all, 2, 0, 1, 3), Reshape(index, index.Shape().Size(), 1))
				out[i] = TransposeAllDims(bySlot, 1, 2, 0, 3)
			}
		}
		return out
	})
}

// insertRow: the cache's prefix, that of one row with no more slots, at → the former with the latter as its row at.
func (n Programs) insertRow() *device.Program {
	return n.Program("insert row", func(in []*Node) []*Node {
		a := net.Args{In: in}
		out, row, at := slices.Clone(a.Next(len(n.Cache))), a.Next(len(n.Cache)), a.One()
		for i, x := range out {
			if n.Dev.PureGo() {
				if n.Cache[i].Slots {
					row[i] = lengthened(row[i], x.Shape().Dimensions[2])
				}
				rows := Iota(x.Graph(), shapes.Make(dtypes.Int32, x.Shape().Dimensions[0]), 0)
				here := Equal(rows, BroadcastToDims(at, rows.Shape().Dimensions...))
				out[i] = Where(here, BroadcastToShape(row[i], x.Shape()), x)
				continue
			}
			begin := slices.Repeat([]*Node{ScalarZero(x.Graph(), dtypes.Int32)}, x.Rank())
			begin[0] = at
			out[i] = DynamicUpdateSlice(x, row[i], begin)
		}
		return out
	})
}

// empty returns a zeroed cache; without states it has the arrays of recent segments.
func (n Programs) empty(rows, length int, states bool) (out []*device.Array, err error) {
	zero, err := device.Scalar(n.Dev, float32(0))
	if err != nil {
		return nil, err
	}
	defer zero.Free()
	for _, x := range n.Cache {
		if !x.Slots && !states {
			continue
		}
		shape := shapes.Make(x.Type(n.Compute), x.Shape(rows, length)...)
		p := n.Program("zeros "+shape.String(), func(in []*Node) []*Node {
			return []*Node{Mul(ConvertDType(in[0], shape.DType), Zeros(in[0].Graph(), shape))}
		})
		a, err := p.Run([]*device.Array{zero})
		if err != nil {
			device.FreeAll(out...)
			return nil, err
		}
		out = append(out, a[0])
	}
	return out, nil
}

// states returns the indices of the cache's states.
func (n Programs) states() (out []int) {
	for i, x := range n.Cache {
		if !x.Slots {
			out = append(out, i)
		}
	}
	return out
}
