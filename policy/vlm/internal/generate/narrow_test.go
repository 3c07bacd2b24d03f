package generate_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/vlm/internal/model"
	. "vagen/policy/vlm/internal/modeltest"
	. "vagen/policy/vlm/internal/vlmtest"
)

// TestNarrowCopiesWriteTheSame: converting a matrix to bfloat16 once or at every use gives
// the same, except for roundings that a compiler may skip: on a CPU it does not round
// numbers that it widens again at once.
func TestNarrowCopiesWriteTheSame(t *testing.T) {
	for _, lora := range []*LoRA{nil, {Rank: 2, Alpha: 4}} {
		m := New(t, model.Qwen25VL, Options{BFloat16: true, LoRA: lora})
		rows, want := m.FourRows(t)
		score := func() []float32 {
			s, err := m.Score(t.Context(), &rows, want, policy.ScoreRequest{LogProbs: true}, 1)
			require.NoError(t, err)
			return s.LogProbs
		}
		_, before := m.Dev.Live()
		wide := score()
		require.NoError(t, m.Gen.MakeNarrow(m.Gen.Weights[0]))
		_, during := m.Dev.Live()
		require.Greater(t, during, before)
		r := m.Sets.Actor.Replicas[0]
		actor := r.Parts
		r.Parts = m.Gen.Narrow[m.Gen.Weights[0]]
		narrow := score()
		r.Parts = actor
		limit := 0.02 // log-probs of size 6, in steps of 1/256 of their terms
		if m.Dev.Accelerator() {
			limit = Drift
		}
		RequireNear(t, wide, narrow, limit, "log-probs")

		b := &policy.Batch{Rows: rows, Weight: make([]float32, len(rows.Tokens))}
		b.Weight[1] = 1
		_, err := m.Update(t.Context(), b, policy.Objective{Imitate: true, Temperature: 1}, policy.DefaultOptimizer())
		require.NoError(t, err)
		require.Empty(t, m.Gen.Narrow, "copies of weights that have changed")
		require.Nil(t, m.Gen.Narrowed)
	}
}

// TestOnlyNarrowComputingCopiesWeights: computing in float32 needs no copies.
func TestOnlyNarrowComputingCopiesWeights(t *testing.T) {
	for _, narrow := range []bool{false, true} {
		m := New(t, model.Qwen25VL, Options{BFloat16: narrow})
		_, before := m.Dev.Live()
		copies := m.Gen.NarrowBytes()
		w, err := m.Gen.GenerationWeights(m.Gen.Weights[0])
		require.NoError(t, err)
		_, after := m.Dev.Live()
		require.Equal(t, copies, after-before)
		require.Equal(t, narrow && m.Dev.Accelerator(), w != m.Sets.Actor.Parts)
		require.Equal(t, narrow && m.Dev.Accelerator(), copies > 0)
	}
}
