package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
)

// TestADisagreementHasItsLikelyCause: each case is what the cause does to log-probs.
func TestADisagreementHasItsLikelyCause(t *testing.T) {
	base := []float32{-1, -2, -0.5, -3}
	shifted := func(d ...float32) []float32 {
		out := make([]float32, len(base))
		for i, x := range base {
			out[i] = x + d[i%len(d)]
		}
		return out
	}
	same := Sample{Sampled: shifted(0.001), Learner: base}
	for name, test := range map[string]struct {
		samples []Sample
		says    string
	}{
		"close": {[]Sample{same, same}, ""},
		"raw": {[]Sample{{Sampled: shifted(0.6, -0.4), Learner: base, Plain: shifted(0.6, -0.4)}},
			"--logprobs-mode processed_logprobs"},
		"images":      {[]Sample{same, {Sampled: shifted(0.4, -0.4), Learner: base, Images: true}}, "image preprocessing"},
		"defaults":    {[]Sample{{Sampled: shifted(0.2), Learner: base}}, "--generation-config vllm"},
		"weights":     {[]Sample{{Sampled: shifted(0.4, -0.4), Learner: base}}, "other weights"},
		"all, images": {[]Sample{{Sampled: shifted(0.4, -0.4), Learner: base, Images: true}}, "other weights"},
	} {
		err := Diagnose(test.samples, 0.05)
		if test.says == "" {
			require.NoError(t, err, name)
			continue
		}
		testkit.Error(t, err, ErrMismatch, test.says)
	}
	a := Compare([]Sample{{Sampled: []float32{-1, -2}, Learner: []float32{-1.5, -1}}})
	require.Equal(t, Agreement{Responses: 1, Tokens: 2, Mean: 0.75, Largest: 1, Bias: -0.25}, a)
	require.NoError(t, Diagnose(nil, 0))
	short := Sample{Sampled: base, Learner: base[:3]}
	require.ErrorContains(t, Diagnose([]Sample{same, short}, 0.05), "sample 1: Sampled has 4 log-probs, Learner 3")
	require.Error(t, Diagnose([]Sample{{Sampled: base, Learner: base, Plain: base[:1]}}, 0.05))
	require.Equal(t, 3, Compare([]Sample{short}).Tokens)
}
