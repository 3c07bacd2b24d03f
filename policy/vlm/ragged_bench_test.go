package vlm

import (
	"cmp"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/vlmtest"
)

// BenchmarkRaggedResponses is one turn in which one response of each eight, or of
// all, has 64 tokens and the others have 6. VAGEN_BENCH_MODEL is the folder of a
// model to use in place of a tiny one.
func BenchmarkRaggedResponses(b *testing.B) {
	for _, c := range []struct {
		name          string
		rows, maxRows int
		long          func(i int) bool
	}{
		{"rows=8", 8, 0, func(i int) bool { return i == 4 }},
		{"rows=32", 32, 0, func(i int) bool { return i == 16 }},
		{"waiting=24", 24, 8, func(i int) bool { return i%8 == 4 }},
		{"even=8", 8, 0, func(int) bool { return true }},
		{"even=32", 32, 0, func(int) bool { return true }},
	} {
		b.Run(c.name, func(b *testing.B) {
			dir := cmp.Or(os.Getenv("VAGEN_BENCH_MODEL"), vlmtest.Folder(b, model.Qwen2, nil))
			m, err := Open(b.Context(), dir, Options{CacheTokens: 256, MaxRows: c.maxRows})
			require.NoError(b, err)
			b.Cleanup(func() { require.NoError(b, m.Close()) })
			prompts := make([]policy.Prompt, c.rows)
			for i := range prompts {
				prompts[i] = policy.Prompt{Conversation: uint64(i), Seed: uint64(i),
					Messages: vlmtest.Say(fmt.Sprint("look ", i, " and go on")), MaxTokens: 6}
				if c.long(i) {
					prompts[i].MaxTokens = 64
				}
			}
			m.cfg.EndOfTurn = nil
			ask := func() {
				_, err := m.Generate(b.Context(), prompts, policy.Sampling{MaxTokens: 64})
				require.NoError(b, err)
				m.Forget(vlmtest.KeysOf(prompts)...)
			}
			ask() // compiles
			b.ReportMetric(m.CompileTime().Seconds(), "compile-s")
			for b.Loop() {
				ask()
			}
		})
	}
}
