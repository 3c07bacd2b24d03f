package safetensors

import (
	"fmt"
	"math"
	"slices"
)

// DType is the element type of a tensor. The zero value is invalid.
type DType uint8

// The element types of whole bytes that the format defines. The packed types of
// fewer than eight bits (F4, F6) are rejected when reading.
const (
	Bool DType = iota + 1
	U8
	I8
	F8E5M2
	F8E4M3
	F8E8M0
	I16
	U16
	F16
	BF16
	I32
	U32
	F32
	C64
	F64
	I64
	U64
)

var dtypes = [...]struct {
	name string
	size int
}{
	Bool: {"BOOL", 1}, U8: {"U8", 1}, I8: {"I8", 1},
	F8E5M2: {"F8_E5M2", 1}, F8E4M3: {"F8_E4M3", 1}, F8E8M0: {"F8_E8M0", 1},
	I16: {"I16", 2}, U16: {"U16", 2}, F16: {"F16", 2}, BF16: {"BF16", 2},
	I32: {"I32", 4}, U32: {"U32", 4}, F32: {"F32", 4},
	C64: {"C64", 8}, F64: {"F64", 8}, I64: {"I64", 8}, U64: {"U64", 8},
}

// ParseDType returns the type that a header calls name, such as "BF16".
func ParseDType(name string) (DType, error) {
	for d := Bool; int(d) < len(dtypes); d++ {
		if dtypes[d].name == name {
			return d, nil
		}
	}
	return 0, fmt.Errorf("safetensors: unknown dtype %q", name)
}

// String returns the name used in headers.
func (d DType) String() string {
	if !d.valid() {
		return fmt.Sprintf("DType(%d)", uint8(d))
	}
	return dtypes[d].name
}

// Size returns the bytes of one element, 0 for no type.
func (d DType) Size() int {
	if !d.valid() {
		return 0
	}
	return dtypes[d].size
}

func (d DType) valid() bool { return d >= Bool && int(d) < len(dtypes) }

// Tensor describes a tensor. An empty shape is a scalar.
type Tensor struct {
	Name  string
	DType DType
	Shape []int
}

// Len returns the number of elements, the product of the shape.
// It is meaningful for tensors that a Reader returned or a Writer accepted:
// those are known not to overflow.
func (t Tensor) Len() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Bytes returns the size of the data.
func (t Tensor) Bytes() int64 { return int64(t.Len()) * int64(t.DType.Size()) }

func (t Tensor) clone() Tensor {
	t.Shape = slices.Clone(t.Shape)
	return t
}

// checkedBytes is Bytes with checks for negative sizes and overflow. A zero dimension
// does not hide an overflow among the others.
func (t Tensor) checkedBytes() (int64, error) {
	if !t.DType.valid() {
		return 0, fmt.Errorf("has no dtype")
	}
	n, empty := int64(t.DType.Size()), false
	for i, d := range t.Shape {
		switch {
		case d < 0:
			return 0, fmt.Errorf("shape %v: dimension %d is negative", t.Shape, i)
		case d == 0:
			empty = true
		case n > math.MaxInt/int64(d):
			return 0, fmt.Errorf("shape %v of %v: size overflows int64", t.Shape, t.DType)
		default:
			n *= int64(d)
		}
	}
	if empty {
		return 0, nil
	}
	return n, nil
}
