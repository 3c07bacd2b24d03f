package vlm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/vlmtest"
)

// TestCountIsWhatGenerateReads counts openings and continuations, after responses
// that ended by themselves or at the limit, before they are read.
func TestCountIsWhatGenerateReads(t *testing.T) {
	m := newTiny(t, model.Qwen25VL, Options{})
	count := func(p policy.Prompt) int {
		n, err := m.Count(p)
		require.NoError(t, err)
		return n
	}
	prompts := vlmtest.Asks()
	for range 3 {
		var want []int
		for _, p := range prompts {
			want = append(want, count(p))
		}
		got, err := m.Generate(t.Context(), prompts, policy.Sampling{Temperature: 1, MaxTokens: 12})
		require.NoError(t, err)
		for i := range prompts {
			require.NoError(t, got[i].Err)
			require.Len(t, got[i].Context, want[i])
			prompts[i].Messages = vlmtest.Say("on <image>", vlmtest.Drawing(uint64(i), 16, 8))
		}
	}
	require.NotEqual(t, count(prompts[0]), count(policy.Prompt{Messages: prompts[0].Messages}),
		"an opening is no continuation")
	past := append(vlmtest.Say("left?"), policy.Message{Role: policy.Assistant, Text: "right"})
	require.Greater(t, count(policy.Prompt{Messages: append(past, vlmtest.Say("sure?")...)}),
		count(policy.Prompt{Messages: vlmtest.Say("sure?")}), "an opening may repeat earlier turns")
	_, err := m.Count(policy.Prompt{Messages: vlmtest.Say("<image>")})
	require.ErrorContains(t, err, "vlm: ")
	require.NoError(t, m.Close())
	_, err = m.Count(prompts[0])
	require.ErrorIs(t, err, ErrClosed)
}
