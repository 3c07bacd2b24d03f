package svg

import (
	"context"
	"testing"
)

func BenchmarkStep(b *testing.B) {
	for name, structural := range map[string]float64{"perceptual": 0, "structural": 1} {
		b.Run(name, func(b *testing.B) {
			o := DefaultOptions()
			o.PromptFormat = "free_think"
			if structural > 0 {
				o.StructuralWeight = &structural
			}
			e, err := New(o)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := e.Reset(context.Background(), 1); err != nil {
				b.Fatal(err)
			}
			response := answer(Icons().At(3).Code)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Step(context.Background(), response); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEdges(b *testing.B) {
	img, err := render(context.Background(), Icons().At(3).Code, pictureSize)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		edgesIn(img)
	}
}

func BenchmarkPerceptual(b *testing.B) {
	img, err := render(context.Background(), Icons().At(3).Code, pictureSize)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		perceptual(img, img)
	}
}
