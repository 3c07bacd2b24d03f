package safetensors

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"

	"vagen/internal/floats"
)

// chunkBytes is the number of bytes of a tensor in memory during a conversion. It is a
// multiple of every element size.
const chunkBytes = 1 << 20

var chunkPool = sync.Pool{New: func() any { b := make([]byte, chunkBytes); return &b }}

// Float32 reads an F32, F16 or BF16 tensor, row-major, into dst and returns it
// with the tensor's length; it allocates only when dst is too small. All three
// types are represented exactly. Any other type is ErrDType.
func (r *Reader) Float32(name string, dst []float32) ([]float32, error) {
	return convert(r, name, dst, decodeFloat32)
}

// Float64 is Float32 for F64, F32, F16 and BF16 tensors.
func (r *Reader) Float64(name string, dst []float64) ([]float64, error) {
	return convert(r, name, dst, decodeFloat64)
}

// Int64 reads an integer or boolean tensor; false is 0 and true is 1. A U64
// value above the largest int64 is an error.
func (r *Reader) Int64(name string, dst []int64) ([]int64, error) {
	return convert(r, name, dst, decodeInt64)
}

// convert streams the tensor through decode, which fills dst from src and returns an
// error for an unsupported type.
func convert[T any](r *Reader, name string, dst []T, decode func(DType, []T, []byte) error) ([]T, error) {
	err := r.with(name, func(p place) error {
		n := p.Len()
		if err := decode(p.DType, nil, nil); err != nil {
			return err
		}
		dst = slices.Grow(dst[:0], n)[:n]
		buf := chunkPool.Get().(*[]byte)
		defer chunkPool.Put(buf)
		at, size := 0, p.DType.Size()
		return p.src.chunks(p.span, *buf, func(b []byte) error {
			k := len(b) / size
			err := decode(p.DType, dst[at:at+k], b)
			at += k
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return dst, nil
}

func wrongDType(d DType, want string) error {
	return fmt.Errorf("%w: %v, want %s", ErrDType, d, want)
}

func decodeFloat32(d DType, dst []float32, src []byte) error {
	switch d {
	case F32:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	case BF16:
		for i := range dst {
			dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
		}
	case F16:
		for i := range dst {
			dst[i] = floats.FromHalf(binary.LittleEndian.Uint16(src[2*i:]))
		}
	default:
		return wrongDType(d, "F32, F16 or BF16")
	}
	return nil
}

func decodeFloat64(d DType, dst []float64, src []byte) error {
	if d == F64 {
		for i := range dst {
			dst[i] = math.Float64frombits(binary.LittleEndian.Uint64(src[8*i:]))
		}
		return nil
	}
	var part [256]float32
	size := d.Size()
	for {
		k := min(len(part), len(dst))
		if err := decodeFloat32(d, part[:k], src); err != nil {
			return wrongDType(d, "F64, F32, F16 or BF16")
		}
		for i, v := range part[:k] {
			dst[i] = float64(v)
		}
		if dst, src = dst[k:], src[k*size:]; len(dst) == 0 {
			return nil
		}
	}
}

func decodeInt64(d DType, dst []int64, src []byte) error {
	le := binary.LittleEndian
	for i := range dst {
		switch d {
		case I64:
			dst[i] = int64(le.Uint64(src[8*i:]))
		case I32:
			dst[i] = int64(int32(le.Uint32(src[4*i:])))
		case I16:
			dst[i] = int64(int16(le.Uint16(src[2*i:])))
		case I8:
			dst[i] = int64(int8(src[i]))
		case U64:
			v := le.Uint64(src[8*i:])
			if v > math.MaxInt64 {
				return fmt.Errorf("value %d does not fit an int64", v)
			}
			dst[i] = int64(v)
		case U32:
			dst[i] = int64(le.Uint32(src[4*i:]))
		case U16:
			dst[i] = int64(le.Uint16(src[2*i:]))
		case U8:
			dst[i] = int64(src[i])
		case Bool:
			if src[i] != 0 {
				dst[i] = 1
			} else {
				dst[i] = 0
			}
		}
	}
	switch d {
	case I64, I32, I16, I8, U64, U32, U16, U8, Bool:
		return nil
	}
	return wrongDType(d, "an integer type or BOOL")
}
