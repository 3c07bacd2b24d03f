package processor

import (
	"fmt"
	"testing"
)

func BenchmarkPatches(b *testing.B) {
	p, err := New(Qwen25VL())
	if err != nil {
		b.Fatal(err)
	}
	for _, size := range [][2]int{{112, 112}, {300, 300}, {512, 512}, {1920, 1080}} {
		b.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(b *testing.B) {
			img := picture(size[0], size[1])
			var out Patches
			b.ReportAllocs()
			b.SetBytes(int64(3 * size[0] * size[1]))
			for b.Loop() {
				if err := p.Patches(&out, img); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkNormalize(b *testing.B) {
	p, err := New(Qwen25VL())
	if err != nil {
		b.Fatal(err)
	}
	var patches Patches
	if err := p.Patches(&patches, picture(504, 504)); err != nil {
		b.Fatal(err)
	}
	var rows []float32
	b.ReportAllocs()
	b.SetBytes(int64(len(patches.Pix)))
	for b.Loop() {
		rows = p.Normalize(rows[:0], patches.Pix)
	}
}
