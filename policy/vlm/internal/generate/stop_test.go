package generate_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/dialogue"
	"vagen/policy"
	"vagen/policy/vlm/internal/model"
	. "vagen/policy/vlm/internal/modeltest"
	. "vagen/policy/vlm/internal/vlmtest"
	"vagen/policy/vlm/tokenizer"
)

func TestStopStringsEndTheirRowAlone(t *testing.T) {
	m := Open(t, Folder(t, model.Qwen25VL, nil), Options{})
	o := policy.Sampling{Temperature: 1, MaxTokens: 12}
	free := Ask(t, m, o, Asks())
	tok := m.Text.Tok
	stop := tok.Decode(free[1].Tokens[3:5], tokenizer.KeepSpecial)
	s := dialogue.NewStopper(tok, []string{stop})
	at := 1 + slices.IndexFunc(free[1].Tokens, s.Add)
	require.NotZero(t, at)
	o.StopStrings = []string{stop}
	got := Ask(t, m, o, Asks())
	require.Equal(t, policy.StopString, got[1].Stop)
	require.Equal(t, free[1].Tokens[:at], got[1].Tokens, "the stop string stays")
	require.Contains(t, got[1].Text, stop)
	require.Equal(t, free[3].Tokens, got[3].Tokens)
}

func TestStreamReportsEveryTokenInOrder(t *testing.T) {
	m := Open(t, Folder(t, model.Qwen25VL, nil), Options{})
	seen := make([][]int32, len(Asks()))
	out, err := m.Gen.Stream(t.Context(), Asks(), policy.Sampling{Temperature: 1, MaxTokens: 9},
		func(prompt int, token int32) {
			seen[prompt] = append(seen[prompt], token)
		})
	require.NoError(t, err)
	for i, c := range out {
		require.Equal(t, c.Tokens, seen[i])
	}
}
