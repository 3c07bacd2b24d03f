package engine

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
	"vagen/policy"
)

// folderWith is a copy of the checkpoint's small files, some of them replaced.
func folderWith(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"config.json", "tokenizer.json", "tokenizer_config.json", "preprocessor_config.json"} {
		raw, err := os.ReadFile(filepath.Join(golden.Root(t), "vlm/qwen2_5_vl-tied/checkpoint", name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), raw, 0o600))
	}
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

func TestEveryEndTokenOfGenerationConfigEndsAResponse(t *testing.T) {
	bare, err := LoadCodec(folderWith(t, nil), nil)
	require.NoError(t, err)
	require.NotContains(t, bare.stops(), int32(7))
	c, err := LoadCodec(folderWith(t, map[string]string{"generation_config.json": `{"eos_token_id": [7, 1297]}`}), nil)
	require.NoError(t, err)
	require.Contains(t, c.stops(), int32(7), "servers stop there")
	_, template := c.text.Chat.EndOfTurn()
	require.Subset(t, c.stops(), append(bare.text.End, template), "the others still end responses")

	p := &Policy{codec: c, fleet: &Fleet{}, chats: map[uint64]*conversation{}}
	r := &response{tokens: []int32{20, 7}, logProbs: []float32{-1, -1}, stopped: true}
	require.NoError(t, (&request{stop: c.stops(), vocab: c.text.Vocab, max: 2}).check(r))
	got := p.complete(&turn{prompt: policy.Prompt{Conversation: 1}, response: r}, policy.Sampling{})
	require.Equal(t, policy.StopEnd, got.Stop)
	require.Equal(t, c.text.Tok.Decode([]int32{20}, false), got.Text)
	require.Equal(t, got.Text, c.Response(got.Tokens))
	require.False(t, p.chats[1].ended, "the template's end of a turn follows")
}

func TestModelFoldersWithUnusableEndTokensAreRefused(t *testing.T) {
	generation := map[string]string{"generation_config.json": `{"eos_token_id": 1408, "top_k": "20"}`}
	_, err := LoadCodec(folderWith(t, generation), nil)
	require.ErrorContains(t, err, "generation_config.json: eos_token_id is 1408, must be in [0, 1408)")
	require.ErrorContains(t, err, `top_k is "20", must be an integer`)
	config := map[string]string{"config.json": `{"vocab_size": 1408, "eos_token_id": [1297, 1408]}`}
	_, err = LoadCodec(folderWith(t, config), nil)
	require.ErrorContains(t, err, "config.json: eos_token_id is 1408, must be in [0, 1408)")
}
