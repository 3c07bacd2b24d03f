package diagnose

import (
	"fmt"
	"strings"
	"testing"

	"vagen/internal/rng"
)

// 128 responses of 500 words from 16 start states.
func BenchmarkTemplateCollapse(b *testing.B) {
	r := rng.New(1, rng.Script)
	batch := &Batch{}
	for i := range 128 {
		var s strings.Builder
		for range 500 {
			fmt.Fprintf(&s, "w%d ", r.IntN(50))
		}
		batch.Group = append(batch.Group, fmt.Sprint(i%16))
		batch.Text = append(batch.Text, s.String())
	}
	m := TemplateCollapse(4)
	b.ReportAllocs()
	for b.Loop() {
		if err := m(map[string]float64{}, batch); err != nil {
			b.Fatal(err)
		}
	}
}
