package table

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
)

// TestRecordedConversationsContinue: a resumed conversation is in the last state of its tokens.
func TestRecordedConversationsContinue(t *testing.T) {
	table := New([]string{"a", "b"}, func(policy.Message) (int32, bool) { return 0, true })
	state := table.token(policy.Message{})
	table.Cells[state] = &Cell{Logits: []float64{0, 50}}
	require.NoError(t, table.Resume(policy.Recorded{Conversation: 7, Tokens: []int32{table.noState(), state}}))
	out, err := table.Generate(t.Context(), []policy.Prompt{{Conversation: 7}}, policy.Sampling{Temperature: 1})
	require.NoError(t, err)
	require.Equal(t, []int32{1, table.end()}, out[0].Tokens)
	table.Forget(7)
	require.Empty(t, table.resumed)
}

// TestTheFirstOfTheMostLikelyWordsIsChosen at temperature 0, whatever the seed.
func TestTheFirstOfTheMostLikelyWordsIsChosen(t *testing.T) {
	table := New([]string{"a", "b", "c"}, func(policy.Message) (int32, bool) { return 0, true })
	table.Cells[table.noState()] = &Cell{Logits: []float64{-1, 2, 2}}
	for seed := range uint64(20) {
		out, err := table.Generate(t.Context(), []policy.Prompt{{Seed: seed}}, policy.Sampling{})
		require.NoError(t, err)
		require.Equal(t, "b", out[0].Text)
	}
}
