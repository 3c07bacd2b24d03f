package learn_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/loss"
	"vagen/policy/vlm/internal/model"
	. "vagen/policy/vlm/internal/modeltest"
	. "vagen/policy/vlm/internal/vlmtest"
)

// TestSumPiSquaredIsTheSumOverTheVocabulary of the squares of the scores' own probabilities.
func TestSumPiSquaredIsTheSumOverTheVocabulary(t *testing.T) {
	m := Open(t, Folder(t, model.Qwen3, nil), Options{})
	rows := &policy.Rows{Offsets: []int{0}}
	var want []bool
	for v := range int32(m.Cfg.Text.Vocab) {
		rows.Tokens, want = append(rows.Tokens, 7, v), append(want, false, true)
		rows.Offsets = append(rows.Offsets, len(rows.Tokens))
	}
	s, err := m.Score(context.Background(), rows, want, policy.ScoreRequest{LogProbs: true, SumPiSquared: true}, 0.7)
	require.NoError(t, err)
	sum := 0.0
	for i := 1; i < len(s.LogProbs); i += 2 {
		sum += math.Exp(2 * float64(s.LogProbs[i]))
	}
	for i := 1; i < len(s.SumPiSquared); i += 2 {
		require.InDelta(t, sum, s.SumPiSquared[i], 1e-5*sum)
	}
	require.Nil(t, s.Entropy)
}

// TestEchoedTokensLearnLikeImitatedOnes, beside tokens with a policy loss.
func TestEchoedTokensLearnLikeImitatedOnes(t *testing.T) {
	dir := Folder(t, model.Qwen3, nil)
	var grads [2]map[string][]float32
	for i, o := range []policy.Objective{{Policy: loss.Reinforce{}, Temperature: 1}, {Imitate: true, Temperature: 1}} {
		b := &policy.Batch{Rows: policy.Rows{Offsets: []int{0, 5}, Tokens: []int32{3, 4, 5, 6, 7}}}
		b.Weight, b.EchoWeight = []float32{0, 0.5, 0, 0.5, 0}, []float32{0, 0, 0.25, 0, 0.125}
		b.OldLogProbs, b.Advantages = make([]float32, 5), []float32{0, 1, 0, 1, 0}
		if o.Imitate {
			b.Weight = []float32{0, 0.5, 0.25, 0.5, 0.125}
		}
		grads[i], _, _ = gradientsOf(t, Open(t, dir, Options{}), b, o)
	}
	requireGradients(t, grads[1], grads[0])
}
