package vlm

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/policy"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/vlmtest"
)

// resumable is what a recorded conversation needs.
type resumable interface {
	policy.Policy
	policy.Resumer
}

// TestAResumedConversationGoesAsTheRecordedOne at every turn, from before the response and
// from after it, with images and responses that were cut off. Four continuations in one
// call are equal, as their seeds are.
func TestAResumedConversationGoesAsTheRecordedOne(t *testing.T) {
	m := newTiny(t, model.Qwen25VL, Options{})
	snapshot, err := m.SnapshotPolicy(t.Context())
	require.NoError(t, err)
	defer snapshot.Close()
	s := policy.Sampling{Temperature: 1, MaxTokens: 10}
	prompts := []policy.Prompt{
		{Messages: append([]policy.Message{{Role: policy.System, Text: "be good"}},
			vlmtest.Say("look <image>", vlmtest.Drawing(1, 24, 16))...), Seed: 1},
		{Messages: vlmtest.Say("now <image> and <image>", vlmtest.Drawing(2, 8, 8), vlmtest.Drawing(3, 16, 8)), Seed: 2},
		{Messages: vlmtest.Say("left or right?"), Seed: 3, MaxTokens: 3},
		{Messages: vlmtest.Say("again <image>", vlmtest.Drawing(1, 24, 16)), Seed: 4},
	}
	var turns []policy.Completion
	for _, p := range prompts {
		p.Conversation = 1
		turns = append(turns, one(t, m, p, s))
	}
	key := uint64(10)
	for what, q := range map[string]resumable{"model": m, "snapshot": snapshot.(resumable)} {
		var tokens []int32
		var images []policy.Image
		for k, c := range turns {
			// The response follows the recorded tokens.
			tokens, images = slices.Concat(tokens, c.Context), slices.Concat(images, c.Images)
			var same []policy.Prompt
			for range 4 {
				key++
				require.NoError(t, q.Resume(policy.Recorded{Conversation: key, Tokens: tokens, Images: images}))
				same = append(same, policy.Prompt{Conversation: key, Seed: prompts[k].Seed, MaxTokens: prompts[k].MaxTokens})
			}
			got, err := q.Generate(t.Context(), same, s)
			require.NoError(t, err)
			for _, g := range got {
				requireResponse(t, c, g, fmt.Sprint(what, ", turn ", k))
				require.Empty(t, g.Context)
				require.Empty(t, g.Images)
			}
			if k+1 < len(turns) { // the new conversation continues like any other
				p := prompts[k+1]
				p.Conversation = key
				g := one(t, q, p, s)
				requireResponse(t, turns[k+1], g, fmt.Sprint(what, ", after turn ", k))
				require.Equal(t, turns[k+1].Context, g.Context)
			}
			// Or the recorded response is followed by new messages.
			tokens = slices.Concat(tokens, c.Tokens)
			if k+1 < len(turns) {
				key++
				require.NoError(t, q.Resume(policy.Recorded{Conversation: key, Tokens: tokens, Images: images}))
				p := prompts[k+1]
				p.Conversation = key
				g := one(t, q, p, s)
				requireResponse(t, turns[k+1], g, fmt.Sprint(what, ", with the response of turn ", k))
				require.Equal(t, turns[k+1].Context, g.Context)
				require.Len(t, g.Images, len(p.Messages[0].Images))
			}
		}
	}
	require.Empty(t, m.gen.Resumed, "they are kept until they are continued")
}

func one(t testing.TB, m policy.Policy, p policy.Prompt, s policy.Sampling) policy.Completion {
	t.Helper()
	out, err := m.Generate(t.Context(), []policy.Prompt{p}, s)
	require.NoError(t, err)
	require.NoError(t, out[0].Err)
	return out[0]
}

func requireResponse(t testing.TB, want, got policy.Completion, what string) {
	t.Helper()
	require.NoError(t, got.Err, what)
	require.Equal(t, want.Tokens, got.Tokens, what)
	require.Equal(t, want.Stop, got.Stop, what)
	require.Equal(t, want.Text, got.Text, what)
	vlmtest.RequireNear(t, want.LogProbs, got.LogProbs, vlmtest.Drift, what)
}

// TestTheCountOfAResumedConversationIsOfTheNewMessages: earlier ones are not counted.
func TestTheCountOfAResumedConversationIsOfTheNewMessages(t *testing.T) {
	m := newTiny(t, model.Qwen25VL, Options{})
	s := policy.Sampling{Temperature: 1, MaxTokens: 6}
	first := one(t, m, policy.Prompt{Conversation: 1, Messages: vlmtest.Say("go left"), Seed: 1}, s)
	next := policy.Prompt{Conversation: 1, Messages: vlmtest.Say("on <image>", vlmtest.Drawing(1, 8, 8)), Seed: 2}
	want, err := m.Count(next)
	require.NoError(t, err)
	require.NoError(t, m.Resume(policy.Recorded{Conversation: 2, Tokens: slices.Concat(first.Context, first.Tokens)}))
	next.Conversation = 2
	got, err := m.Count(next)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestResumeRefusesWhatCannotBeContinued(t *testing.T) {
	m := newTiny(t, model.Qwen25VL, Options{})
	s := policy.Sampling{Temperature: 1, MaxTokens: 6}
	c := one(t, m, policy.Prompt{Conversation: 1, Messages: vlmtest.Say("<image>", vlmtest.Drawing(1, 8, 8)), Seed: 1}, s)
	whole := slices.Concat(c.Context, c.Tokens)
	for what, r := range map[string]policy.Recorded{
		"it is already open":              {Conversation: 1, Tokens: whole, Images: c.Images},
		"it has no tokens":                {Conversation: 2},
		"the row has only 0 images":       {Conversation: 2, Tokens: whole},
		"2 images, but placeholders":      {Conversation: 2, Tokens: whole, Images: append(c.Images[:1:1], c.Images...)},
		"token 0 is -1, must be in":       {Conversation: 2, Tokens: []int32{-1}},
		"token 0 is 1000000, must be in":  {Conversation: 2, Tokens: []int32{1000000}},
		"image 0: image 01020000 is miss": {Conversation: 2, Tokens: whole, Images: []policy.Image{{Hash: [32]byte{1, 2}}}},
	} {
		err := m.Resume(policy.Recorded{Conversation: 3, Tokens: []int32{5}}, r)
		testkit.Error(t, err, policy.ErrResume, what)
	}
	require.Empty(t, m.gen.Resumed, "none is resumed after an error")

	require.NoError(t, m.Resume(policy.Recorded{Conversation: 3, Tokens: whole, Images: c.Images}))
	m.Forget(3)
	opened := one(t, m, policy.Prompt{Conversation: 3, Messages: vlmtest.Say("<image>", vlmtest.Drawing(1, 8, 8)),
		Seed: 1}, s)
	require.Equal(t, c.Context, opened.Context, "it is forgotten, so a new one opens")
	complete := append(slices.Clone(whole), m.text.Tok.Special().TurnEnd)
	require.NoError(t, m.Resume(policy.Recorded{Conversation: 4, Tokens: complete, Images: c.Images}))
	out, err := m.Generate(t.Context(), []policy.Prompt{{Conversation: 4}}, s)
	require.NoError(t, err)
	require.ErrorIs(t, out[0].Err, policy.ErrResume, "no message follows the response")
	require.NoError(t, m.Close())
	require.ErrorIs(t, m.Resume(policy.Recorded{Conversation: 3, Tokens: whole}), ErrClosed)
}

// TestAConversationTooLongForTheModelIsRefused counts the recorded tokens.
func TestAConversationTooLongForTheModelIsRefused(t *testing.T) {
	m := newTiny(t, model.Qwen2, Options{})
	require.NoError(t, m.Resume(policy.Recorded{Conversation: 1, Tokens: make([]int32, 2045)}))
	out, err := m.Generate(t.Context(), []policy.Prompt{{Conversation: 1}}, policy.Sampling{MaxTokens: 6})
	require.NoError(t, err)
	require.ErrorIs(t, out[0].Err, policy.ErrNoRoom)
}
