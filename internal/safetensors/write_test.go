package safetensors

import "fmt"

// Bytes writes little-endian bytes of the named tensor, which must be the next
// in order, unchanged. A large tensor may be written in several calls.
func (w *Writer) Bytes(name string, raw []byte) error {
	return w.with(name, func(Tensor) error {
		if int64(len(raw)) > w.left {
			return fmt.Errorf("%d bytes, but only %d are left to write", len(raw), w.left)
		}
		return w.write(raw)
	})
}
