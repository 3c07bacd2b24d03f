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
	err := r.with(name, func(p place) error {
		n := p.Len()
		if err := decodeFloat32(p.DType, nil, nil); err != nil {
			return err
		}
		dst = slices.Grow(dst[:0], n)[:n]
		buf := chunkPool.Get().(*[]byte)
		defer chunkPool.Put(buf)
		at, size := 0, p.DType.Size()
		return p.src.chunks(p.span, *buf, func(b []byte) error {
			k := len(b) / size
			err := decodeFloat32(p.DType, dst[at:at+k], b)
			at += k
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return dst, nil
}

func wrongDType(d DType) error { return fmt.Errorf("%w: %v, want F32, F16 or BF16", ErrDType, d) }

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
		return wrongDType(d)
	}
	return nil
}
