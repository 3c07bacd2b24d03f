package generate_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/vlm/internal/model"
	. "vagen/policy/vlm/internal/modeltest"
	. "vagen/policy/vlm/internal/vlmtest"
)

// opened are prompts in pairs of equal contexts, which begin alike unless own is set, with pictures if image is.
func opened(n int, image, own bool) []policy.Prompt {
	out := make([]policy.Prompt, n)
	for i := range out {
		rules := strings.Repeat("go left and then right, ", 4)
		if own {
			rules = Words[i] + rules
		}
		var ask []policy.Message
		if ask = Say(rules + Words[i/2]); image {
			ask = Say(rules+"<image>"+Words[i/2], Drawing(uint64(i/2), 16, 8))
		}
		out[i] = policy.Prompt{Conversation: uint64(i), Messages: ask, Seed: uint64(50 + i)}
	}
	return out
}

// The tokens with which new conversations begin are read once: responses are the same, also of groups that share
// their whole context, of layers with states, and in later turns.
func TestCommonPrefixesAreReadOnce(t *testing.T) {
	t.Parallel()
	o := policy.Sampling{Temperature: 1, MaxTokens: 6}
	for _, family := range []model.Family{model.Qwen2, model.Qwen25VL, model.Qwen35Text} {
		t.Run(string(family), func(t *testing.T) {
			t.Parallel()
			dir := Folder(t, family, nil)
			for _, n := range []int{3, 8} { // 8 rows read 4 contexts
				full, shared := Open(t, dir, Options{}), Open(t, dir, Options{SharePrefix: true})
				prompts := opened(n, family == model.Qwen25VL, false)
				for turn := range 2 {
					want, err := full.Generate(t.Context(), prompts, o)
					require.NoError(t, err)
					got, err := shared.Generate(t.Context(), prompts, o)
					require.NoError(t, err)
					for i := range want {
						require.NoError(t, got[i].Err)
						require.Equal(t, want[i].Tokens, got[i].Tokens, "turn %d, conversation %d", turn, i)
						require.Equal(t, want[i].Context, got[i].Context)
						RequireNear(t, want[i].LogProbs, got[i].LogProbs, Drift, "log-probs")
					}
					require.Equal(t, turn > 0, ran(full, "append layer 0 open=false"))
					require.True(t, ran(shared, "append layer 0 open=false"))
					for key, c := range full.Gen.Chats {
						require.Equal(t, c.Length, shared.Gen.Chats[key].Length)
					}
					prompts = nextTurn(prompts)
				}
			}
		})
	}
	m := New(t, model.Qwen2, Options{SharePrefix: true})
	before, _ := m.Dev.Live()
	Ask(t, m, o, opened(4, false, true))
	require.False(t, ran(m, "append layer 0 open=false"), "contexts have nothing in common")
	Ask(t, m, o, opened(2, false, false))
	require.False(t, ran(m, "append layer 0 open=false"), "equal contexts are read once anyway")
	Ask(t, m, o, opened(4, false, false))
	require.True(t, ran(m, "append layer 0 open=false"))
	after, _ := m.Dev.Live()
	require.Equal(t, before, after, "arrays are freed with the conversations")
}
