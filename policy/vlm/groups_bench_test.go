package vlm

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/loss"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/vlmtest"
)

// BenchmarkGroups is an optimiser step on two groups of eight responses of 64 tokens to a prompt of 384, which the
// responses of a group have once or each for itself. VAGEN_BENCH_MODEL is the folder of a model to use in place of a
// tiny one.
func BenchmarkGroups(b *testing.B) {
	const prompt, response, groups, size = 384, 64, 2, 8
	r := rand.New(rand.NewPCG(1, 1))
	token := func() int32 { return int32(r.IntN(256)) }
	batch := &policy.Batch{Rows: policy.Rows{Offsets: []int{0}}}
	for range groups {
		begin := make([]int32, prompt)
		for i := range begin {
			begin[i] = token()
		}
		for range size {
			batch.Tokens = append(batch.Tokens, begin...)
			for range response {
				batch.Tokens = append(batch.Tokens, token())
			}
			batch.Offsets = append(batch.Offsets, len(batch.Tokens))
		}
	}
	n := len(batch.Tokens)
	batch.Weight, batch.Advantages, batch.OldLogProbs = make([]float32, n), make([]float32, n), make([]float32, n)
	for i := range n {
		if i%(prompt+response) >= prompt {
			batch.Weight[i], batch.Advantages[i] = 1.0/(groups*size*response), float32(r.NormFloat64())
		}
	}
	for _, share := range []bool{false, true} {
		b.Run(fmt.Sprint("share=", share), func(b *testing.B) {
			dir := cmp.Or(os.Getenv("VAGEN_BENCH_MODEL"), vlmtest.Folder(b, model.Qwen2, nil))
			m, err := Open(b.Context(), dir, Options{SharePrefix: share, MicroTokens: 1024})
			require.NoError(b, err)
			b.Cleanup(func() { require.NoError(b, m.Close()) })
			update := func() {
				o := policy.Objective{Temperature: 1, Policy: loss.DefaultPPO()}
				_, err := m.Update(b.Context(), batch, o, policy.DefaultOptimizer())
				require.NoError(b, err)
			}
			update() // compiles
			for b.Loop() {
				update()
			}
		})
	}
}
