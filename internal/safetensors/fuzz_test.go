package safetensors

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzHeader: an accepted header covers the file exactly, and writing it again gives an
// equivalent header.
func FuzzHeader(f *testing.F) {
	f.Add([]byte(`{}`), uint16(0))
	f.Add([]byte(`{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}}`), uint16(8))
	f.Add([]byte(`{"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]},"b":{"dtype":"I64","shape":[0],"data_offsets":[1,1]}}`), uint16(1))
	f.Add([]byte(`{"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]}}`), uint16(8))
	f.Add([]byte(`{"a":[[[[[[`), uint16(8))
	f.Fuzz(func(t *testing.T, raw []byte, size uint16) {
		h, err := parseHeader(raw, int64(size))
		if err != nil {
			return
		}
		var at int64
		var list []Tensor
		for _, s := range h.spans {
			if s.begin != at || s.end-s.begin != s.Bytes() {
				t.Fatalf("%q: bytes [%d, %d) after %d, shape %v of %v", s.Name, s.begin, s.end, at, s.Shape, s.DType)
			}
			at = s.end
			list = append(list, s.Tensor)
		}
		if at != int64(size) {
			t.Fatalf("%d bytes described, %d there", at, size)
		}
		if checkTensors(list) != nil {
			return // a name that may be read but not written, such as ""
		}
		b, err := encodeHeader(list, h.metadata)
		require.NoError(t, err)
		again, err := parseHeader(b[lengthBytes:], int64(size))
		require.NoError(t, err, b)
		c, err := encodeHeader(list, again.metadata)
		if err != nil || !bytes.Equal(b, c) {
			t.Fatalf("%s and %s (%v)", b, c, err)
		}
	})
}

// FuzzIndex: no accepted index refers to a file outside its folder.
func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"metadata":{"total_size":8},"weight_map":{"a":"model-00001-of-00001.safetensors"}}`))
	f.Add([]byte(`{"weight_map":{"a":"../x.safetensors"}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		weights, err := parseIndex(raw)
		if err != nil {
			return
		}
		for name, shard := range weights {
			if bytes.ContainsAny([]byte(shard), "/\\") || shard[0] == '.' {
				t.Fatalf("%q: %q", name, shard)
			}
		}
	})
}
