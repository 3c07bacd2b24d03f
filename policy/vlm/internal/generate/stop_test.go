package generate_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/vlm/internal/generate"
	"vagen/policy/vlm/internal/model"
	. "vagen/policy/vlm/internal/vlmtest"
	"vagen/policy/vlm/tokenizer"
)

func TestStopperFindsStringsAcrossTokens(t *testing.T) {
	tok := Tokenizer(t)
	for text, want := range map[string]int{ // tokens up to the one that completes a stop string
		"abc</a>d":    7,
		"ab</left>":   6, // "left" is one token
		"</a":         0,
		"naïve é</a>": 13, // characters of two bytes
	} {
		s := generate.NewStopDetector(tok, []string{"</a>", "</left>"})
		ids, err := tok.Encode(text)
		require.NoError(t, err)
		got := 0
		for i, id := range ids {
			if s.Add(id) {
				got = i + 1
				break
			}
		}
		require.Equal(t, want, got, text)
	}
	require.False(t, generate.NewStopDetector(tok, nil).Add(1), "nothing to look for")
}

func TestStopStringsEndTheirRowAlone(t *testing.T) {
	m := Open(t, Folder(t, model.Qwen25VL, nil), Options{})
	o := policy.Sampling{Temperature: 1, MaxTokens: 12}
	free := Ask(t, m, o, Asks())
	tok := m.Text.Tok
	stop := tok.Decode(free[1].Tokens[3:5], tokenizer.KeepSpecial)
	at := 0
	s := generate.NewStopDetector(tok, []string{stop})
	for i, id := range free[1].Tokens {
		if s.Add(id) {
			at = i + 1
			break
		}
	}
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
