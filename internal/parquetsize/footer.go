package parquetsize

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Footer checks the footer of a file before it is decoded: lists that claim to be longer
// than the remaining data are errors.
func Footer(r io.ReaderAt, size int64) error {
	var tail [8]byte
	if size < int64(len(tail)) {
		return fmt.Errorf("%w: a file of %d bytes", ErrSize, size)
	}
	if _, err := r.ReadAt(tail[:], size-8); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	length := int64(binary.LittleEndian.Uint32(tail[:]))
	if length > size-8 {
		return fmt.Errorf("%w: a footer of %d bytes in a file of %d", ErrSize, length, size)
	}
	raw := make([]byte, length)
	if _, err := r.ReadAt(raw, size-8-length); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	w := walker{data: raw}
	if w.structFields(0); w.err != nil {
		return fmt.Errorf("%w: footer: %w", ErrSize, w.err)
	}
	return nil
}

// walker walks over Thrift's compact protocol.
type walker struct {
	data []byte
	err  error
}

// Types of the compact protocol.
const (
	kindStop   = 0
	kindTrue   = 1
	kindFalse  = 2
	kindByte   = 3
	kindI16    = 4
	kindI32    = 5
	kindI64    = 6
	kindDouble = 7
	kindBinary = 8
	kindList   = 9
	kindSet    = 10
	kindMap    = 11
	kindStruct = 12
)

const maxDepth = 32

func (w *walker) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
	w.data = nil
}

func (w *walker) skip(n uint64) {
	if n > uint64(len(w.data)) {
		w.fail("%d bytes needed, %d left", n, len(w.data))
		return
	}
	w.data = w.data[n:]
}

func (w *walker) uvarint() uint64 {
	x, n := binary.Uvarint(w.data)
	if n <= 0 {
		w.fail("a number is truncated")
		return 0
	}
	w.data = w.data[n:]
	return x
}

func (w *walker) byte() byte {
	if len(w.data) == 0 {
		w.fail("the data is truncated")
		return kindStop
	}
	b := w.data[0]
	w.data = w.data[1:]
	return b
}

// structFields walks over the fields of a struct.
func (w *walker) structFields(depth int) {
	for w.err == nil {
		head := w.byte()
		if head == kindStop {
			return
		}
		if head>>4 == 0 { // the field number follows
			w.uvarint()
		}
		if kind := head & 15; kind != kindTrue && kind != kindFalse { // booleans have no data bytes
			w.value(kind, depth+1)
		}
	}
}

// value walks over a value.
func (w *walker) value(kind byte, depth int) {
	if depth > maxDepth {
		w.fail("values nested more than %d deep", maxDepth)
		return
	}
	switch kind {
	case kindTrue, kindFalse, kindByte:
		w.skip(1)
	case kindI16, kindI32, kindI64:
		w.uvarint()
	case kindDouble:
		w.skip(8)
	case kindBinary:
		w.skip(w.uvarint())
	case kindList, kindSet:
		head := w.byte()
		n := uint64(head >> 4)
		if n == 15 {
			n = w.uvarint()
		}
		w.items(n, depth, head&15)
	case kindMap:
		if n := w.uvarint(); n > 0 {
			kinds := w.byte()
			w.items(n, depth, kinds>>4, kinds&15)
		}
	case kindStruct:
		w.structFields(depth)
	default:
		w.fail("a value of the unknown kind %d", kind)
	}
}

// items walks over the items of a list or a map, each of at least one byte.
func (w *walker) items(n uint64, depth int, kinds ...byte) {
	if n > uint64(len(w.data)) {
		w.fail("a list of %d items in %d bytes", n, len(w.data))
		return
	}
	for range n {
		for _, kind := range kinds {
			if w.value(kind, depth+1); w.err != nil {
				return
			}
		}
	}
}
