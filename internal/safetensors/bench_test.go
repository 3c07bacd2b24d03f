package safetensors

import (
	"path/filepath"
	"testing"
)

const benchLen = 16 << 20

func benchFile(b *testing.B, d DType) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "m.safetensors")
	w, err := Create(path, []Tensor{{"a", d, []int{benchLen}}}, nil)
	if err != nil {
		b.Fatal(err)
	}
	v := make([]float32, benchLen)
	for i := range v {
		v[i] = float32(i%1000) / 999
	}
	if err := w.Float32("a", v); err != nil {
		b.Fatal(err)
	}
	if err := w.Commit(); err != nil {
		b.Fatal(err)
	}
	return path
}

func BenchmarkFloat32(b *testing.B) {
	for _, d := range []DType{F32, BF16, F16} {
		b.Run(d.String(), func(b *testing.B) {
			r, err := Open(benchFile(b, d))
			if err != nil {
				b.Fatal(err)
			}
			defer r.Close()
			dst := make([]float32, benchLen)
			b.SetBytes(int64(benchLen * d.Size()))
			b.ReportAllocs()
			for b.Loop() {
				if dst, err = r.Float32("a", dst); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkEncode does not write to disk.
func BenchmarkEncode(b *testing.B) {
	src := make([]float32, chunkBytes/4)
	for i := range src {
		src[i] = float32(i) / 999
	}
	for _, d := range []DType{F32, BF16, F16} {
		b.Run(d.String(), func(b *testing.B) {
			buf := make([]byte, chunkBytes)
			b.SetBytes(int64(len(src) * d.Size()))
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if _, err = encodeFloat32(d, buf, src); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
