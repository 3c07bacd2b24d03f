package vlm

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/policy"
	"vagen/policy/vlm/internal/generate"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/vlmtest"
	"vagen/policy/vlm/tokenizer"
)

// thinking is a chat template that opens a thought in every response.
const thinking = `{%- for m in messages %}` +
	`{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{%- endfor %}` +
	`{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n<think>\n' }}{%- endif %}`

// thinker is a model without a device, whose template opens a thought.
func thinker(t *testing.T) *Model {
	dir := vlmtest.Folder(t, model.Qwen25VL, nil)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "chat_template.jinja"), []byte(thinking), 0o644))
	m, err := describe(dir, Options{})
	require.NoError(t, err)
	m.gen = generate.New(m.text, generate.Settings{}, nil)
	return m
}

// Of a response whose thought the template opens, the text has the tag, and the tokens, which
// are sampled, scored and learned, do not.
func TestAResponseBeginsWithWhatTheTemplateOpens(t *testing.T) {
	m := thinker(t)
	const written = "go right</think><answer>right</answer>"
	tokens, err := m.text.Tok.Encode(written + "<|im_end|>")
	require.NoError(t, err)

	prompts := []policy.Prompt{{Conversation: 1, Messages: []policy.Message{{Role: policy.User, Text: "where?"}}}}
	limit := policy.Thinking{Tokens: 3, Open: "<think>", Close: "</think>"}
	turns, err := m.gen.ReadPrompts(prompts, policy.Sampling{MaxTokens: 9, Thinking: limit})
	require.NoError(t, err)
	require.True(t, turns[0].Think.Inside, "a limit on the thought counts from the first token")
	m.gen.Chats[1] = &generate.Conversation{}
	r := &generate.Reply{Tokens: tokens, LogProbs: make([]float32, len(tokens)), Stopped: true}
	c := m.gen.Completion(prompts[0], turns[0], r)
	require.Equal(t, "<think>\n"+written, c.Text)
	require.Equal(t, tokens, c.Tokens)
	require.Len(t, c.LogProbs, len(tokens))
	require.True(t, m.text.Chat.Begins(m.text.Tok, c.Context))

	ends := m.Ends(c.Tokens)
	require.Equal(t, len("<think>\ng"), ends[0])
	require.Equal(t, len(c.Text), ends[len(ends)-2])

	asked := policy.Message{Role: policy.User, Text: "where?"}
	pieces, _, err := m.Encode([]policy.Message{asked, {Role: policy.Assistant, Text: c.Text}})
	require.NoError(t, err)
	want := []policy.Piece{{Tokens: c.Context}, {Tokens: c.Tokens, Response: true}}
	require.Equal(t, want, pieces, "supervised rows learn no second tag")
	require.Equal(t, c.Text, m.Response(pieces[1].Tokens))
	_, _, err = m.Encode([]policy.Message{asked, {Role: policy.Assistant, Text: "<answer>right</answer>"}})
	testkit.Error(t, err, tokenizer.ErrText, "message 1: ")
}

// A message without a loss is shown as the template shows it, with or without its thought.
func TestAHistoryWithoutItsThoughtsIsContext(t *testing.T) {
	m := thinker(t)
	asked := policy.Message{Role: policy.User, Text: "where?"}
	before := policy.Message{Role: policy.Assistant, Text: "<answer>left</answer>", Unlearned: true}
	last := policy.Message{Role: policy.Assistant, Text: "<think>\nwest</think><answer>left</answer>"}
	shown := func(msgs ...policy.Message) (out []string) {
		pieces, _, err := m.Encode(msgs)
		require.NoError(t, err)
		for _, p := range pieces {
			out = append(out, m.text.Tok.Decode(p.Tokens, tokenizer.KeepSpecial))
		}
		return out
	}
	const end, user = "<|im_end|>", "<|im_start|>user\nwhere?<|im_end|>\n<|im_start|>assistant\n"
	require.Equal(
		t, []string{user, before.Text + end, "\n" + user + "<think>\n", "west</think><answer>left</answer>" + end},
		shown(asked, before, asked, last),
	)
	whole := last
	whole.Unlearned = true
	require.Equal(t, shown(asked, last), shown(asked, whole), "a message with its thought stays as it is")
}

// A conversation that is resumed before a response gets what the template opened; one that is
// resumed within a response, whose beginning is recorded, does not.
func TestAResumedThoughtIsOpenedOnce(t *testing.T) {
	m := thinker(t)
	context, err := m.text.Tok.Encode("<|im_start|>user\nwhere?<|im_end|>\n<|im_start|>assistant\n<think>\n")
	require.NoError(t, err)
	before := policy.Recorded{Conversation: 1, Tokens: context}
	within := policy.Recorded{Conversation: 2, Tokens: append(context[:len(context):len(context)], 'g')}
	require.NoError(t, m.Resume(before, within))
	turns, err := m.gen.ReadPrompts([]policy.Prompt{{Conversation: 1}, {Conversation: 2}}, policy.Sampling{MaxTokens: 9})
	require.NoError(t, err)
	require.Equal(t, []string{"<think>\n", ""}, []string{turns[0].Opened, turns[1].Opened})
}
