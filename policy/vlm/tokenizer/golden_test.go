package tokenizer

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
)

type recorded struct {
	VocabSize     int    `json:"vocab_size"`
	BaseVocabSize int    `json:"base_vocab_size"`
	SplitRegex    string `json:"split_regex"`
	Encodings     []recordedEncoding
	Chats         []struct {
		Messages []recordedMessage `json:"messages"`
		Generate bool              `json:"add_generation_prompt"`
		Rendered string            `json:"rendered"`
		IDs      []int32           `json:"ids"`
	} `json:"chats"`
}

type recordedEncoding struct {
	Text, Decoded      string
	IDs                []int32
	DecodedSkipSpecial string   `json:"decoded_skip_special"`
	Pieces             []string // nil where they were not recorded
}

func (c *recordedEncoding) check(t *testing.T, tally *golden.Tally, tok *Tokenizer) {
	t.Helper()
	tally.Case()
	ids, err := tok.Encode(c.Text)
	require.NoError(t, err)
	equalIDs(t, tally, c.Text, ids, c.IDs)
	for mode, want := range map[DecodeMode]string{KeepSpecial: c.Decoded, SkipSpecial: c.DecodedSkipSpecial} {
		golden.Equal(t, tally, c.Text+": decoded", tok.Decode(ids, mode), want)
		golden.Equal(t, tally, c.Text+": streamed", stream(tok, ids, mode), want)
	}
}

// recordedMessage is a message in the form that templates take.
type recordedMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

func (m recordedMessage) message(t testing.TB) Message {
	t.Helper()
	var text string
	if json.Unmarshal(m.Content, &text) == nil {
		return Text(m.Role, text)
	}
	var parts []struct{ Type, Text string }
	require.NoError(t, json.Unmarshal(m.Content, &parts))
	out := Message{Role: m.Role}
	for _, p := range parts {
		require.Contains(t, []string{"text", "image"}, p.Type)
		out.Parts = append(out.Parts, Part{Text: p.Text, Image: p.Type == "image"})
	}
	return out
}

func recordedMessages(t testing.TB, list []recordedMessage) []Message {
	t.Helper()
	var out []Message
	for _, m := range list {
		out = append(out, m.message(t))
	}
	return out
}

func loadRecorded(t testing.TB) (*Tokenizer, recorded) {
	t.Helper()
	var rec recorded
	golden.Read(t, "vlm/tokenizer/golden.json", &rec)
	tok, err := Load(golden.Path(t, "vlm", "tokenizer"))
	require.NoError(t, err)
	return tok, rec
}

// The recorded encodings are those of transformers (see the note in testdata).
func TestEncodingsAreThoseOfTransformers(t *testing.T) {
	tally := golden.NewTally(t, "vlm/tokenizer")
	tok, rec := loadRecorded(t)
	golden.Equal(t, tally, "vocab_size", tok.VocabSize(), rec.VocabSize)
	golden.Equal(t, tally, "base_vocab_size", len(tok.bpe.vocab), rec.BaseVocabSize)
	for _, c := range rec.Encodings {
		c.check(t, tally, tok)
	}
}

func TestChatsAreThoseOfTransformers(t *testing.T) {
	tally := golden.NewTally(t, "vlm/tokenizer chats")
	tok, rec := loadRecorded(t)
	chat, err := tok.Chat(nil)
	require.NoError(t, err)
	for i, c := range rec.Chats {
		tally.Case()
		what := fmt.Sprintf("chat %d", i)
		text, err := chat.render(recordedMessages(t, c.Messages), c.Generate)
		require.NoError(t, err)
		golden.Equal(t, tally, what, text, c.Rendered)
		ids, err := tok.Encode(text)
		require.NoError(t, err)
		equalIDs(t, tally, what, ids, c.IDs)
	}
}

func equalIDs(t *testing.T, tally *golden.Tally, what string, got, want []int32) {
	t.Helper()
	tally.Add(1)
	require.Equal(t, append([]int32{}, want...), append([]int32{}, got...), what)
}

func stream(tok *Tokenizer, ids []int32, mode DecodeMode) string {
	d := tok.NewDecoder(mode)
	text := ""
	for _, id := range ids {
		text += d.Add(id)
	}
	return text + d.Flush()
}
