package engine

import (
	"fmt"
	"image"
	"testing"

	"vagen/policy"
)

// BenchmarkGenerate is the cost of the client, and of the stub that answers, for 64
// conversations that open with an image.
func BenchmarkGenerate(b *testing.B) {
	f, _ := opened(b, VLLM, 1, nil)
	var prompts []policy.Prompt
	pictures := []image.Image{drawn(112, 112, 1)}
	for i := range 64 {
		prompts = append(prompts, opening(uint64(i+1), fmt.Sprint("Go left or right? ", i), pictures...))
	}
	for b.Loop() {
		ask(b, NewPolicy(f), prompts...)
	}
	b.ReportMetric(64*float64(b.N)/b.Elapsed().Seconds(), "responses/s")
}
