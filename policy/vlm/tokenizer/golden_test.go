package tokenizer

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
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
		golden.Equal(t, tally, c.Text+": decoded", tok.Decode(ids, false), c.Decoded)
		golden.Equal(t, tally, c.Text+": without special", tok.Decode(ids, true), c.DecodedSkipSpecial)
		for skip, want := range map[bool]string{false: c.Decoded, true: c.DecodedSkipSpecial} {
			golden.Equal(t, tally, c.Text+": streamed", stream(tok, ids, skip), want)
		}
	}
}

func equalIDs(t *testing.T, tally *golden.Tally, what string, got, want []int32) {
	t.Helper()
	tally.Add(1)
	require.Equal(t, append([]int32{}, want...), append([]int32{}, got...), what)
}

func stream(tok *Tokenizer, ids []int32, skip bool) string {
	d := tok.NewDecoder(skip)
	text := ""
	for _, id := range ids {
		text += d.Add(id)
	}
	return text + d.Flush()
}

// modelFolders lists the recorded models.
func modelFolders(t testing.TB) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(golden.Path(t, "vlm"), "*", "manifest.json"))
	require.NoError(t, err)
	var dirs []string
	for _, path := range found {
		dir := filepath.Dir(path)
		if _, err := os.Stat(filepath.Join(dir, "checkpoint")); err == nil {
			dirs = append(dirs, dir)
		}
	}
	require.NotEmpty(t, dirs)
	return dirs
}
