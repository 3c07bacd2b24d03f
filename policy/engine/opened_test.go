package engine

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
	"vagen/policy"
	"vagen/policy/vlm/tokenizer"
)

// The text of a served response begins with what the local template opens; its tokens and
// log-probs are those that the server generated.
func TestAServedResponseBeginsWithWhatTheTemplateOpens(t *testing.T) {
	dir := t.TempDir()
	from := filepath.Join(golden.Root(t), "vlm/qwen2_5_vl-tied/checkpoint")
	require.NoError(t, os.CopyFS(dir, os.DirFS(from)))
	const thinking = `{%- for m in messages %}` +
		`{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{%- endfor %}` +
		`{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n<think>\n' }}{%- endif %}`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "chat_template.jinja"), []byte(thinking), 0o644))
	codec, err := LoadCodec(dir, nil)
	require.NoError(t, err)
	f, _ := opened(t, VLLM, 1, nil)
	f.codec = codec
	p := NewPolicy(f)
	for turn, q := range []policy.Prompt{opening(3, "start"), following(3, "on")} {
		c := ask(t, p, q)[0]
		require.NoError(t, c.Err)
		words := c.Tokens[:len(c.Tokens)-1]
		require.Equal(t, "<think>\n"+codec.text.Tok.Decode(words, tokenizer.KeepSpecial), c.Text, "turn %d", turn)
		require.Len(t, c.LogProbs, len(c.Tokens))
		require.True(t, codec.text.Chat.Begins(codec.text.Tok, c.Context))
		require.Equal(t, codec.text.Tok.Ends(c.Tokens)[0]+len("<think>\n"), p.Ends(c.Tokens)[0])
	}
	tokens := p.chats[3].tokens
	require.NoError(t, p.Resume(policy.Recorded{Conversation: 4, Tokens: tokens[:len(tokens)-1]}))
	c := ask(t, p, policy.Prompt{Conversation: 4, Seed: 1})[0]
	require.NotContains(t, c.Text, "<think>", "the recorded tokens end inside the response")
}
