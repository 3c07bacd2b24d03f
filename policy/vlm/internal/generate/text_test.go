package generate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy/vlm/tokenizer"
)

// TestEndsFollowTheText: ends give the length of the response's text after each token;
// characters of several tokens end with their last one.
func TestEndsFollowTheText(t *testing.T) {
	tok, err := tokenizer.NewTiny([]string{"left", "right"})
	require.NoError(t, err)
	m := &Encoder{Tok: tok, Chat: &tokenizer.Chat{}}
	for _, text := range []string{"<think>go left</think><answer>Left</answer>", "goal up — λ 🙂 é", "x"} {
		ids, err := tok.Encode(text)
		require.NoError(t, err)
		ends := m.Ends(ids)
		require.Len(t, ends, len(ids))
		last := 0
		for i, end := range ends {
			require.GreaterOrEqual(t, end, last)
			last = end
			if whole := tok.Decode(ids[:i+1], tokenizer.KeepSpecial); whole == text[:min(len(whole), len(text))] {
				require.Equal(t, len(whole), end, "%q: token %d", text, i)
			}
		}
		require.Equal(t, len(text), last)
	}
	require.Empty(t, m.Ends(nil))
}
