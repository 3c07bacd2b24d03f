package vlm

import (
	"cmp"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/vlm/internal/model"
)

// BenchmarkRaggedResponses is one turn in which a single response has 64 tokens
// and all others have 6. VAGEN_BENCH_MODEL is the folder of a model to use in
// place of a tiny one.
func BenchmarkRaggedResponses(b *testing.B) {
	for _, rows := range []int{8, 32} {
		for _, even := range []bool{false, true} {
			name := fmt.Sprintf("rows=%d/ragged", rows)
			if even {
				name = fmt.Sprintf("rows=%d/even", rows)
			}
			b.Run(name, func(b *testing.B) {
				dir := cmp.Or(os.Getenv("VAGEN_BENCH_MODEL"), tinyFolder(b, model.Qwen2, nil))
				m, err := Open(b.Context(), dir, Options{CacheTokens: 256})
				require.NoError(b, err)
				b.Cleanup(func() { require.NoError(b, m.Close()) })
				prompts := make([]policy.Prompt, rows)
				for i := range prompts {
					prompts[i] = policy.Prompt{Conversation: uint64(i), Seed: uint64(i), Messages: say(fmt.Sprint("look ", i, " and go on")), MaxTokens: 6}
					if i == rows/2 || even {
						prompts[i].MaxTokens = 64
					}
				}
				m.cfg.EndOfTurn = nil
				ask := func() {
					_, err := m.Generate(b.Context(), prompts, policy.Sampling{MaxTokens: 64})
					require.NoError(b, err)
					m.Forget(keysOf(prompts)...)
				}
				ask() // compiles
				b.ReportMetric(m.CompileTime().Seconds(), "compile-s")
				for b.Loop() {
					ask()
				}
			})
		}
	}
}
