package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	thinks := func(m Message) bool { return m.Role == RoleAssistant && strings.Contains(m.text(""), "</think>") }
	if c.Generate && !slices.ContainsFunc(messages, thinks) { // no response is rewritten
		opened := opened(t, chat, messages...)
		golden.Equal(t, tally, "opened", opened, c.Rendered)
	}
}

// thoughts are how a request for a response ends by the variable enable_thinking.
var thoughts = map[bool]string{true: "<think>\n", false: "<think>\n\n</think>\n\n"}

// TestConversationsWithQwen35: where the template only concatenates messages, the text is the template's. Where the
// template would change an earlier response, the response stays as it was written. Messages for which the template
// raises an error are refused, except the system message of a teacher. Which thought a request has without
// enable_thinking differs between the sizes of the model.
func TestConversationsWithQwen35(t *testing.T) {
	found := 0
	for _, dir := range golden.Models(t) {
		dir = filepath.Join(dir, "checkpoint")
		raw, err := os.ReadFile(filepath.Join(dir, "config.json"))
		require.NoError(t, err)
		if !strings.Contains(string(raw), `"qwen3_5`) {
			continue
		}
		found++
		tok, err := Load(dir)
		require.NoError(t, err)
		for think, thought := range thoughts {
			conversesAsQwen35(t, tok, map[string]any{"enable_thinking": think}, thought)
		}
		chat, err := tok.Chat(nil)
		require.NoError(t, err)
		conversesAsQwen35(t, tok, nil, thoughts[chat.Opened() != ""])
	}
	require.Positive(t, found)
}

// conversesAsQwen35 checks the conversations with some variables of the template, where requests end with a thought.
func conversesAsQwen35(t *testing.T, tok *Tokenizer, vars map[string]any, thought string) {
	t.Helper()
	chat, err := tok.Chat(vars)
	require.NoError(t, err)
	ask := "<|im_end|>\n<|im_start|>assistant\n" + thought
	opening := opened(t, chat, Text(RoleSystem, " S\n"), Text(RoleUser, "\x1c one\x1f "))
	require.Equal(t, "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\none"+ask, opening, "trimmed as by Python")
	for _, told := range []string{"two", "<tool_response>\nwall\n</tool_response>"} {
		next, err := chat.Continue([]Message{Text(RoleUser, told)}, EndedTurn)
		require.NoError(t, err)
		require.Equal(t, "\n<|im_start|>user\n"+told+ask, next)
	}
	const response = "<think>\nbecause\n</think>\n\nUp"
	written, err := chat.Written(response)
	require.NoError(t, err)
	require.Equal(t, strings.TrimPrefix(response, chat.Opened()), written)
	require.Equal(t, thought == thoughts[true], chat.Opened() == thought, "a closed thought is not part of the response")
	require.Equal(t, strings.TrimSuffix(opening, thought), chat.Finished(opening), "as an earlier response")

	alone, err := chat.Render([]Message{Text(RoleSystem, "S")})
	require.NoError(t, err)
	require.Equal(t, "<|im_start|>system\nS<|im_end|>\n", alone, "the template demands a user")
	for want, second := range map[string]Message{
		"must be the first message": Text(RoleSystem, "S"), "messages of role tool": Text(RoleTool, "x"),
		"an image in a assistant message": withImage(RoleAssistant, "", ""),
	} {
		_, err := chat.Open([]Message{Text(RoleUser, "one"), second})
		require.ErrorContains(t, err, want)
	}
	_, err = chat.Open([]Message{withImage(RoleSystem, "S", ""), Text(RoleUser, "one")})
	require.ErrorContains(t, err, "an image in a system message")
}

// kept is Qwen3.5's template as the released Qwen3.6 and Qwen3.8 have it: preserve_thinking keeps earlier reasoning.
const kept = `{%- for m in messages %}{%- set t = m.content|trim %}{%- set why = '' %}` +
	`{%- if '</think>' in t %}{%- set why = t.split('</think>')[0].split('<think>')[-1]|trim %}` +
	`{%- set t = t.split('</think>')[-1].lstrip('\n') %}{%- endif %}` +
	`{{- '<|im_start|>' + m.role + '\n' }}{%- if m.role == 'assistant' and preserve_thinking %}` +
	`{{- '<think>\n' + why + '\n</think>\n\n' }}{%- endif %}{{- t + '<|im_end|>\n' }}{%- endfor %}` +
	`{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n<think>\n' }}{%- endif %}`

// TestPreservedThinkingIsShown: the template begins every response that it shows with a thought, and a request opens
// one.
func TestPreservedThinkingIsShown(t *testing.T) {
	for preserve, shown := range map[bool]string{true: "<think>\n\n</think>\n\n", false: ""} {
		chat, err := withTemplate(t, kept, map[string]any{"preserve_thinking": preserve})
		require.NoError(t, err)
		require.Equal(t, "<think>\n", chat.Opened())
		require.True(t, chat.RewritesHistory())
		got := opened(t, chat, Text(RoleUser, "a"), Text(RoleAssistant, "b"), Text(RoleUser, "c"))
		require.Equal(t, "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n"+shown+
			"b<|im_end|>\n<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n<think>\n", got)
	}
	tok := tiny(t)
	tok.template = kept
	require.NoError(t, tok.CheckVariables(map[string]any{"preserve_thinking": true}))
}
