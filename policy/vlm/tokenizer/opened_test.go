package tokenizer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
)

// Templates in the manner of reasoning models.
const (
	ask    = `{%- if add_generation_prompt %}`
	chatML = `{%- for m in messages %}{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{%- endfor %}` +
		ask + `{{- '<|im_start|>assistant\n' }}`
	always = chatML + `{{- '<think>\n' }}{%- endif %}`
	choice = chatML + `{%- if enable_thinking %}{{- '<think>\n' }}` +
		`{%- else %}{{- '<think>\n\n</think>\n\n' }}{%- endif %}{%- endif %}`
	dropped = `{%- for m in messages %}{%- if m.role == 'user' %}{{- '<|User|>' + m.content }}` +
		`{%- elif m.role == 'assistant' %}{%- set c = m.content %}` +
		`{%- if '</think>' in c %}{%- set c = c.split('</think>')[-1] %}{%- endif %}` +
		`{{- '<|Assistant|>' + c + '<|im_end|>' }}{%- endif %}{%- endfor %}` +
		ask + `{{- '<|Assistant|><think>\n' }}{%- endif %}`
	outside = `{%- for m in messages %}{%- if m.role == 'user' %}{{- '<|User|>' + m.content }}` +
		`{%- else %}{{- '<|Assistant|></think>' + m.content + '<|im_end|>' }}{%- endif %}{%- endfor %}` +
		ask + `{{- '<|Assistant|><think>' if thinking else '<|Assistant|></think>' }}{%- endif %}`
	emptied = `{%- for m in messages %}{%- if m.role == 'user' %}{{- '<|User|>' + m.content }}` +
		`{%- else %}{{- '<|Assistant|><think></think>' + m.content + '<|im_end|>' }}{%- endif %}{%- endfor %}` +
		ask + `{{- '<|Assistant|><think>\n' }}{%- endif %}`
	turns = `{%- for m in messages %}{{- '<start_of_turn>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{%- endfor %}` +
		ask + `{{- '<start_of_turn>assistant\n' }}`
	otherTag  = turns + `{{- '<seed:think>' }}{%- endif %}`
	noThought = turns + `{%- endif %}`
)

// TestWhatATemplateOpensIsKnown: requests are those of transformers 5.24.0 with jinja2 3.1.6
// (chat_template_utils._compile_jinja_template).
func TestWhatATemplateOpensIsKnown(t *testing.T) {
	on := map[string]any{"enable_thinking": true, "thinking": true}
	for _, c := range []struct {
		template        string
		vars            map[string]any
		request, opened string
		rewrites        bool
	}{
		{always, nil, "<|im_start|>user\ngo<|im_end|>\n<|im_start|>assistant\n<think>\n", "<think>\n", false},
		{choice, on, "<|im_start|>user\ngo<|im_end|>\n<|im_start|>assistant\n<think>\n", "<think>\n", false},
		{choice, nil, "<|im_start|>user\ngo<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n", "", true},
		{dropped, nil, "<|User|>go<|Assistant|><think>\n", "<think>\n", true},
		{outside, on, "<|User|>go<|Assistant|><think>", "<think>", true},
		{outside, nil, "<|User|>go<|Assistant|></think>", "", false},
		{emptied, nil, "<|User|>go<|Assistant|><think>\n", "<think>\n", true},
		{otherTag, nil, "<start_of_turn>user\ngo<|im_end|>\n<start_of_turn>assistant\n<seed:think>", "<seed:think>", false},
		{noThought, nil, "<start_of_turn>user\ngo<|im_end|>\n<start_of_turn>assistant\n", "", false},
		{chatML + "{%- endif %}", nil, "<|im_start|>user\ngo<|im_end|>\n<|im_start|>assistant\n", "", false},
	} {
		chat, err := withTemplate(t, c.template, c.vars)
		require.NoError(t, err)
		got := opened(t, chat, Text(RoleUser, "go"))
		require.Equal(t, c.request, got)
		require.Equal(t, c.opened, chat.Opened(), c.request)
		require.Equal(t, c.rewrites, chat.RewritesHistory(), c.request)
	}
}

// A response is what the template opens and what the model writes, whatever white space is
// between the two.
func TestWhatAModelWritesFollowsWhatTheTemplateOpens(t *testing.T) {
	chat := chatOf(t, always)
	for response, want := range map[string]string{
		"<think>\ngo</think>Up":    "go</think>Up",
		"<think>go</think>Up":      "go</think>Up",
		" <think> \n go</think>Up": "go</think>Up",
		"<think>\n\n</think>Up":    "\n</think>Up",
		"<think>":                  "",
	} {
		got, err := chat.Written(response)
		require.NoError(t, err)
		require.Equal(t, want, got, response)
	}
	for _, response := range []string{"Up", "", "go</think>Up", "<answer>Up</answer><think>"} {
		_, err := chat.Written(response)
		testkit.Error(t, err, ErrText, `must begin with <think>, because the chat template begins every response with`)
	}
	got, err := chatOf(t, noThought).Written(" Up")
	require.NoError(t, err)
	require.Equal(t, " Up", got)

	tok := tiny(t)
	encode := func(text string) []int32 {
		ids, err := tok.Encode(text)
		require.NoError(t, err)
		return ids
	}
	require.Equal(t, []int{9, 10}, chat.Ends(tok, encode("go")))
	require.True(t, chat.Begins(tok, encode("é<think>\n")))
	require.False(t, chat.Begins(tok, encode("<think>\ngo")))
	require.False(t, chat.Begins(tok, encode("k>\n")))
}
