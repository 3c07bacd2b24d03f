package tokenizer

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
	"vagen/internal/safetensors"
)

type recorded struct {
	VocabSize     int    `json:"vocab_size"`
	BaseVocabSize int    `json:"base_vocab_size"`
	SplitRegex    string `json:"split_regex"`
	Encodings     []struct {
		Text               string  `json:"text"`
		IDs                []int32 `json:"ids"`
		Decoded            string  `json:"decoded"`
		DecodedSkipSpecial string  `json:"decoded_skip_special"`
	} `json:"encodings"`
	Chats []struct {
		Messages []recordedMessage `json:"messages"`
		Generate bool              `json:"add_generation_prompt"`
		Rendered string            `json:"rendered"`
		IDs      []int32           `json:"ids"`
	} `json:"chats"`
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
		tally.Case()
		ids, err := tok.Encode(c.Text)
		require.NoError(t, err)
		equalIDs(t, tally, c.Text, ids, c.IDs)
		golden.Equal(t, tally, c.Text+": decoded", tok.Decode(ids, KeepSpecial), c.Decoded)
		golden.Equal(t, tally, c.Text+": without special", tok.Decode(ids, SkipSpecial), c.DecodedSkipSpecial)
		for mode, want := range map[DecodeMode]string{KeepSpecial: c.Decoded, SkipSpecial: c.DecodedSkipSpecial} {
			golden.Equal(t, tally, c.Text+": streamed", stream(tok, ids, mode), want)
		}
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

// For every recorded model: its own template and tokenizer, with the image
// placeholders expanded by the recorded grids, give the recorded input_ids.
func TestPromptsOfRecordedModels(t *testing.T) {
	for _, dir := range golden.Models(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			tally := golden.NewTally(t, "vlm/"+filepath.Base(dir)+" prompts")
			var manifest struct {
				Cases []struct {
					Name      string `json:"name"`
					PromptLen int    `json:"prompt_len"`
					Prompts   []struct {
						Messages []recordedMessage `json:"messages"`
						Images   []string          `json:"images"`
						Rendered string            `json:"rendered"`
					} `json:"prompts"`
				} `json:"cases"`
			}
			raw, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(raw, &manifest))
			tensors, err := safetensors.Open(filepath.Join(dir, "golden.safetensors"))
			require.NoError(t, err)
			defer tensors.Close()
			tok, err := Load(filepath.Join(dir, "checkpoint"))
			require.NoError(t, err)
			chat, err := tok.Chat(nil)
			require.NoError(t, err)
			for _, c := range manifest.Cases {
				tally.Case()
				info, ok := tensors.Info(c.Name + ".input_ids")
				require.True(t, ok)
				rows, err := tensors.Int64(c.Name+".input_ids", nil)
				require.NoError(t, err)
				mask, err := tensors.Int64(c.Name+".attention_mask", nil)
				require.NoError(t, err)
				grids := imageTokens(t, tensors, c.Name)
				require.Len(t, c.Prompts, info.Shape[0])
				for row, p := range c.Prompts {
					text, err := chat.Open(recordedMessages(t, p.Messages))
					require.NoError(t, err)
					golden.Equal(t, tally, c.Name, text, p.Rendered)
					ids, err := tok.Encode(text)
					require.NoError(t, err)
					counts := grids[:len(p.Images)]
					grids = grids[len(p.Images):]
					ids, err = tok.ExpandImages(nil, ids, counts)
					require.NoError(t, err)
					var want []int32
					for i := range c.PromptLen {
						if at := row*info.Shape[1] + i; mask[at] == 1 {
							want = append(want, int32(rows[at]))
						}
					}
					equalIDs(t, tally, c.Name, ids, want)
				}
				require.Empty(t, grids, "images left over")
			}
		})
	}
}

// imageTokens returns the merged patches of each image of a case.
func imageTokens(t *testing.T, tensors *safetensors.Reader, name string) []int {
	t.Helper()
	if _, ok := tensors.Info(name + ".image_grid_thw"); !ok {
		return nil
	}
	grid, err := tensors.Int64(name+".image_grid_thw", nil)
	require.NoError(t, err)
	var counts []int
	for i := 0; i < len(grid); i += 3 {
		counts = append(counts, int(grid[i]*grid[i+1]*grid[i+2]/4)) // merged 2 by 2
	}
	return counts
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
