package safetensors

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

func cloneTensors(list []Tensor) []Tensor {
	out := make([]Tensor, len(list))
	for i, t := range list {
		out[i] = t.clone()
	}
	return out
}

func checkTensors(list []Tensor) error {
	var wrong problems
	seen := make(map[string]bool, len(list))
	var total int64
	for i, t := range list {
		switch n, err := t.checkedBytes(); {
		case t.Name == "" || t.Name == metadataKey || !utf8.ValidString(t.Name):
			wrong.addf("tensor %d: the name %q is not allowed", i, t.Name)
		case seen[t.Name]:
			wrong.addf("tensor %d: the name %q is repeated", i, t.Name)
		case err != nil:
			wrong.addf("tensor %q: %v", t.Name, err)
		case total > math.MaxInt64-n:
			wrong.addf("tensor %q: the total size overflows int64", t.Name)
		default:
			total += n
		}
		seen[t.Name] = true
	}
	return wrong.err(errors.New("cannot be written"))
}

// encodeHeader returns the length word and the JSON, padded with spaces so that
// the data begins at a multiple of 8.
func encodeHeader(tensors []Tensor, metadata map[string]string) ([]byte, error) {
	meta := map[string]string{"format": "pt"}
	maps.Copy(meta, metadata)
	b := append(make([]byte, lengthBytes), '{')
	b = append(b, quote(metadataKey)...)
	b = append(b, ":{"...)
	for i, key := range slices.Sorted(maps.Keys(meta)) {
		if !utf8.ValidString(key) || !utf8.ValidString(meta[key]) {
			return nil, fmt.Errorf("cannot be written: metadata %q is not UTF-8", key)
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, quote(key)...), ':'), quote(meta[key])...)
	}
	b = append(b, '}')
	var at int64
	for _, t := range tensors {
		dims := strings.ReplaceAll(fmt.Sprint(t.Shape), " ", ",")
		b = fmt.Appendf(b, `,%s:{"dtype":"%v","shape":%s,"data_offsets":[%d,%d]}`,
			quote(t.Name), t.DType, dims, at, at+t.Bytes())
		at += t.Bytes()
	}
	b = append(b, '}')
	for len(b)%8 != 0 {
		b = append(b, ' ')
	}
	if len(b)-lengthBytes > maxHeader {
		return nil, fmt.Errorf("cannot be written: header of %d bytes, maximum is %d", len(b)-lengthBytes, maxHeader)
	}
	binary.LittleEndian.PutUint64(b, uint64(len(b)-lengthBytes))
	return b, nil
}

func quote(s string) []byte {
	b, _ := json.Marshal(s) // a valid string always marshals
	return b
}

// encodeFloat32 writes src in the given type, one of F32, F16 and BF16, to the
// front of buf, which is large enough, and returns that part. One loop per type
// keeps the rounding inlined.
func encodeFloat32(d DType, buf []byte, src []float32) ([]byte, error) {
	le := binary.LittleEndian
	b := buf[:len(src)*d.Size()]
	bad := -1
	switch d {
	case F32:
		for i, v := range src {
			le.PutUint32(b[4*i:], math.Float32bits(v))
		}
	case BF16:
		for i, v := range src {
			h := toBFloat16(v)
			if h&0x7fff == 0x7f80 && !isInf(v) {
				bad = i
			}
			le.PutUint16(b[2*i:], h)
		}
	case F16:
		for i, v := range src {
			h := toHalf(v)
			if h&0x7fff == 0x7c00 && !isInf(v) {
				bad = i
			}
			le.PutUint16(b[2*i:], h)
		}
	}
	if bad >= 0 {
		return nil, fmt.Errorf("value %g at index %d is too large for %v", src[bad], bad, d)
	}
	return b, nil
}

func isInf(v float32) bool { return v > math.MaxFloat32 || v < -math.MaxFloat32 }
