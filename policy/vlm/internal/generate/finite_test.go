package generate_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/vlm/internal/devicetest"
	"vagen/policy/vlm/internal/model"
	. "vagen/policy/vlm/internal/modeltest"
	"vagen/policy/vlm/internal/net"
	. "vagen/policy/vlm/internal/vlmtest"
)

// poisonRow fills a row of a tensor on the device with x.
func poisonRow(t *testing.T, m *Model, name string, row int32, x float32) {
	t.Helper()
	found := false
	all := func(model.Param) bool { return true }
	require.NoError(t, m.Sets.Actor.Weights.Replace(all, func(part model.Stored, old []float32) ([]float32, error) {
		if part.Name == name {
			found = true
			for i := range part.Dims[1] {
				old[int(row)*part.Dims[1]+i] = x
			}
		}
		return old, nil
	}))
	require.True(t, found, name)
}

// One logit that is NaN makes every probability NaN: no token is sampled.
func TestNoTokenIsDrawnFromLogitsThatAreNotNumbers(t *testing.T) {
	t.Parallel()
	check := func(m *Model, name string, o policy.Sampling) {
		t.Helper()
		o.MaxTokens = 4
		watched := 0
		prompts := []policy.Prompt{{Conversation: 1, Messages: Say("go left")},
			{Conversation: 2, Messages: Say("where is it?")}}
		got, err := m.Gen.Stream(t.Context(), prompts, o, func(int, int32) { watched++ })
		require.NoError(t, err)
		for i, c := range got {
			require.ErrorIs(t, c.Err, net.ErrNotFinite, name)
			require.Empty(t, c.Tokens)
			require.ErrorContains(t, c.Err, "vlm: generate: token 0 of the response: log-prob is ")
			again, err := m.Generate(t.Context(), []policy.Prompt{{Conversation: prompts[i].Conversation, Messages: Say(
				"and?")}}, o)
			require.NoError(t, err)
			require.ErrorIs(t, again[0].Err, net.ErrNotFinite, "the conversation is over")
			m.Forget(prompts[i].Conversation)
		}
		require.Zero(t, watched)
	}
	const row = 77 // a token that the prompts do not have
	m := New(t, model.Qwen3, Options{})
	for text, bad := range NotFinite {
		poisonRow(t, m, "lm_head.weight", row, bad) // Inf − Inf, too, is NaN
		for name, o := range map[string]policy.Sampling{
			"greedy": {}, "drawn": {Temperature: 1}, "top-k": {Temperature: 1, TopK: 3}, "top-p": {Temperature: 1, TopP: 0.5},
			"min-p": {Temperature: 1, MinP: 0.1},
		} {
			check(m, text+" "+name, o)
		}
	}
	compiled := Open(t, Folder(t, model.Qwen3, shallow), Options{Backend: devicetest.Backend()})
	poisonRow(t, compiled, "lm_head.weight", row, NotFinite["NaN"])
	check(compiled, "compiled", policy.Sampling{Temperature: 1, TopK: 3, TopP: 0.5, MinP: 0.1})
}

// A conversation whose numbers are not finite ends; the others of its batch get
// bit-identical results.
func TestNumbersThatAreNotFiniteEndTheirConversationAlone(t *testing.T) {
	t.Parallel()
	m := Open(t, Folder(t, model.Qwen3, shallow), Options{Backend: devicetest.Backend()})
	o := policy.Sampling{Temperature: 1, MaxTokens: 6}
	prompts := []policy.Prompt{
		{Conversation: 1, Messages: Say("go left"), Seed: 1}, {Conversation: 2, Messages: Say("the goal"), Seed: 2},
		{Conversation: 3, Messages: Say("go up"), Seed: 3},
	}
	want, err := m.Generate(t.Context(), prompts, o)
	require.NoError(t, err)
	m.Forget(1, 2, 3)
	goal, err := m.Text.Tok.Encode("goal")
	require.NoError(t, err)
	require.Len(t, goal, 1)
	for _, i := range []int{0, 2} {
		require.NotContains(t, append(want[i].Context, want[i].Tokens...), goal[0])
	}
	poisonRow(t, m, "model.embed_tokens.weight", goal[0], float32(math.NaN()))
	got, err := m.Generate(t.Context(), prompts, o)
	require.NoError(t, err)
	require.ErrorIs(t, got[1].Err, net.ErrNotFinite)
	require.Equal(t, want[0], got[0])
	require.Equal(t, want[2], got[2])
}
