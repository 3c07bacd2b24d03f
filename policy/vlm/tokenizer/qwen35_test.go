package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
	"vagen/policy/vlm/tokenizer/internal/jinja"
)

// The tokenizers of recorded models with encodings of their own cut text into the recorded pieces, and their
// templates show conversations as transformers does: with the reasoning of the last turn, without that of earlier ones.
func TestTokenizersOfRecordedModels(t *testing.T) {
	found := 0
	for _, dir := range golden.Models(t) {
		raw, err := os.ReadFile(filepath.Join(dir, "tokenizer_golden.json"))
		if err != nil {
			continue
		}
		found++
		t.Run(filepath.Base(dir), func(t *testing.T) {
			tally := golden.NewTally(t, "vlm/"+filepath.Base(dir)+" tokenizer")
			var rec struct {
				VocabSize  int    `json:"vocab_size"`
				SplitRegex string `json:"split_regex"`
				Encodings  []recordedEncoding
				Chats      []recordedChat
			}
			require.NoError(t, json.Unmarshal(raw, &rec))
			tok, err := Load(filepath.Join(dir, "checkpoint"))
			require.NoError(t, err)
			golden.Equal(t, tally, "vocab_size", tok.VocabSize(), rec.VocabSize)
			for _, c := range rec.Encodings {
				c.check(t, tally, tok)
				if scan := patterns[rec.SplitRegex]; c.Pieces != nil {
					tally.Add(1)
					require.Equal(t, c.Pieces, append([]string{}, cutAll(scan, normalizeNFC(c.Text))...), c.Text)
				}
			}
			for _, c := range rec.Chats {
				tally.Case()
				c.check(t, tally, tok)
			}
		})
	}
	require.Positive(t, found)
}

// recordedChat is a conversation with variables of the template.
type recordedChat struct {
	Messages []struct {
		recordedMessage
		Reasoning *string `json:"reasoning_content"`
	}
	Generate bool  `json:"add_generation_prompt"`
	Think    *bool `json:"enable_thinking"`
	Rendered string
	IDs      []int32
}

func (c *recordedChat) check(t *testing.T, tally *golden.Tally, tok *Tokenizer) {
	vars := map[string]any{}
	if c.Think != nil {
		vars["enable_thinking"] = *c.Think
	}
	chat, err := tok.Chat(vars)
	require.NoError(t, err)
	require.True(t, chat.RewritesHistory())
	var list []any
	var messages []Message
	for _, m := range c.Messages {
		one := m.message(t)
		messages = append(messages, one)
		shown := jinja.Dict{{Key: "role", Value: one.Role}, {Key: "content", Value: one.content()}}
		if m.Reasoning != nil {
			shown = append(shown, jinja.Dict{{Key: "reasoning_content", Value: *m.Reasoning}}...)
		}
		list = append(list, shown)
	}
	text, err := chat.call.run(c.Generate, list)
	require.NoError(t, err)
	golden.Equal(t, tally, "chat", text, c.Rendered)
	ids, err := tok.Encode(text)
	require.NoError(t, err)
	equalIDs(t, tally, text, ids, c.IDs)
	think := func(m Message) bool {
		return m.Role == RoleAssistant && m.Parts[0].Text[0] == '<' && m.Parts[0].Text[1] == 't'
	}
	if c.Generate && !slices.ContainsFunc(messages, think) { // no response is rewritten
		opened, err := chat.Open(messages)
		require.NoError(t, err)
		golden.Equal(t, tally, "opened", opened, c.Rendered)
	}
}
