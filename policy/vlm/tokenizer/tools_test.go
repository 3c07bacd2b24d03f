package tokenizer

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
)

// TestToolsAreShownAsByTheTemplate: calls, results in a row, and definitions. The expected
// texts are those of jinja2 3.1.6 with the settings of transformers; the templates are those
// of Qwen2.5 with a shorter text, of Llama 3.1 without its definitions of tools, and one that does what those of
// Qwen3.5 and 3.8 do.
func TestToolsAreShownAsByTheTemplate(t *testing.T) {
	recorded := recordedTools(t)
	for i, r := range recorded {
		vars := map[string]any{}
		if string(r.Tools) != "null" {
			vars["tools"] = r.Tools
		}
		c, err := withTemplate(t, r.Template, vars)
		require.NoError(t, err)
		require.True(t, c.tool.supported)
		var messages []Message
		for _, m := range r.Messages {
			if m.Calls != nil {
				m.Content, err = c.ToolCalls(m.Content, m.Calls)
				require.NoError(t, err)
			}
			messages = append(messages, Text(m.Role, m.Content))
		}
		got, err := c.Render(messages)
		require.NoError(t, err)
		require.Equal(t, r.Text, got, "conversation %d", i)
	}
	tools, llama := recorded[0].Template, recorded[3].Template
	c := chatOf(t, tools)
	for calls, want := range map[string]string{ // other forms of the same
		`[{"name": "f", "arguments": {"b": 1, "a": 2}}]`:                             `{"name": "f", "arguments": {"b": 1, "a": 2}}`,
		`[{"function": {"name": "f", "arguments": "{\"b\": 1,\"a\":\"\\u00e9\"}"}}]`: `{"name": "f", "arguments": {"b": 1, "a": "é"}}`,
		`[{"function": {"name": "f", "arguments": ""}}]`:                             `{"name": "f", "arguments": {}}`,
	} {
		got, err := c.ToolCalls("<think>x</think>", json.RawMessage(calls))
		require.NoError(t, err, calls)
		require.Equal(t, "<think>x</think>\n<tool_call>\n"+want+"\n</tool_call>", got)
	}
	for calls, want := range map[string]string{
		`7`: "must be a list of calls", `[]`: "is empty", `[{}]`: "tool_calls[0] has no name",
		`[{"name": "f", "arguments": "x"}]`: "arguments are x, must be an object",
		`[{"name": "f", "arguments": [1]}]`: "arguments are [1], must be an object",
	} {
		_, err := c.ToolCalls("", json.RawMessage(calls))
		testkit.Error(t, err, ErrText, want)
	}
	c = chatOf(t, llama)
	_, err := c.ToolCalls("first", json.RawMessage(`[{"name": "f"}]`))
	require.ErrorContains(t, err, "does not show the text of a message with tool calls")
	_, err = c.ToolCalls("", json.RawMessage(`[{"name": "f"}, {"name": "g"}]`))
	require.ErrorContains(t, err, "single tool-calls")
}

// recordedConversation is a conversation with tools, as a template shows it.
type recordedConversation struct {
	Template string
	Tools    json.RawMessage
	Messages []struct {
		Role, Content string
		Calls         json.RawMessage `json:"tool_calls"`
	}
	Text string
}

func recordedTools(t *testing.T) (recorded []recordedConversation) {
	raw, err := os.ReadFile("testdata/tools.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &recorded))
	return recorded
}

// TestThoughtsGetTheFormOfTheTemplate where it shows them in the last response; where the request has closed the
// thought, and with templates that know none, they stay as they were written.
func TestThoughtsGetTheFormOfTheTemplate(t *testing.T) {
	recorded := recordedTools(t)
	thinking := chatOf(t, recorded[4].Template)
	for text, want := range map[string]string{
		"<think>why</think>so": "<think>\nwhy\n</think>\n\nso", "so": "so", "<think>why": "<think>why",
		" <think>\n\n why\n</think>\n so </think> ": "<think>\nwhy\n</think>\n\nso </think>",
		"<think></think>so":                         "<think>\n\n</think>\n\nso",
	} {
		got, err := thinking.ToolCalls(text, nil)
		require.NoError(t, err)
		require.Equal(t, want, got)
		got, err = chatOf(t, recorded[0].Template).ToolCalls(text, nil)
		require.NoError(t, err)
		require.Equal(t, text, got)
	}
	const call = "<tool_call>\n<function=f>\n</function>\n</tool_call>"
	for text, want := range map[string]string{
		"<think>why</think>": "<think>\nwhy\n</think>\n\n" + call, " so\n": "so\n\n" + call, " \n": call,
	} {
		got, err := thinking.ToolCalls(text, json.RawMessage(`[{"name": "f"}]`))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := thinking.ToolCalls("", json.RawMessage(`[{"name": "f", "arguments": {"n": 12345678901234567890}}]`))
	require.ErrorContains(t, err, "the number 12345678901234567890 is too large", "the error of the first try")
}

// TestResultsOfToolsMayHaveImages if the template shows them.
func TestResultsOfToolsMayHaveImages(t *testing.T) {
	recorded := recordedTools(t)
	messages := []Message{Text(RoleUser, "a"), Text(RoleAssistant, "b"), withImage(RoleTool, "", " see ", "")}
	got := opened(t, chatOf(t, recorded[4].Template), messages...)
	const image = "<|vision_start|><|image_pad|><|vision_end|>"
	require.Equal(t, "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\n"+
		"<tool_response>\n"+image+" see "+image+"\n</tool_response><|im_end|>\n<|im_start|>assistant\n<think>\n", got)
	_, err := chatOf(t, recorded[0].Template).Open(messages)
	require.ErrorContains(t, err, "an image in a tool message, which the chat template does not support")
}

// TestBlankSystemMessagesAreLeftOut by templates that show none, also where they write a system message of their own.
// The expected texts are those of jinja2 3.1.6.
func TestBlankSystemMessagesAreLeftOut(t *testing.T) {
	recorded := recordedTools(t)[4]
	tools := map[string]any{"tools": json.RawMessage(`[{"name": "f"}]`)}
	for want, vars := range map[string]map[string]any{
		"": nil, "<|im_start|>system\nThink briefly.<|im_end|>\n": {"reasoning_effort": "low"},
		"<|im_start|>system\n<tools>\n{\"name\": \"f\"}\n</tools><|im_end|>\n": tools,
	} {
		c, err := withTemplate(t, recorded.Template, vars)
		require.NoError(t, err)
		const user = "<|im_start|>user\na<|im_end|>\n"
		for _, blank := range []string{"", " \n"} {
			got, err := c.Render([]Message{Text(RoleSystem, blank), Text(RoleUser, "a")})
			require.NoError(t, err)
			require.Equal(t, want+user, got)
		}
		got, err := c.Render([]Message{Text(RoleUser, "a")})
		require.NoError(t, err)
		require.Equal(t, want+user, got)
		got, err = c.Render([]Message{Text(RoleSystem, "s"), Text(RoleUser, "a")})
		require.NoError(t, err)
		shown := "<|im_start|>system\ns<|im_end|>\n"
		if want != "" {
			shown = strings.TrimSuffix(want, "<|im_end|>\n") + "\n\ns<|im_end|>\n"
		}
		require.Equal(t, shown+user, got)
	}
}

// TestTemplatesWithoutToolsRefuseThem: a template that writes the name of any role has none.
func TestTemplatesWithoutToolsRefuseThem(t *testing.T) {
	for _, template := range []string{tinyTemplate, trimming, alternating, thinking} {
		c := chatOf(t, template)
		require.False(t, c.tool.supported)
		_, err := c.Open([]Message{Text(RoleUser, "a"), Text(RoleAssistant, "b"), Text(RoleTool, "c")})
		require.ErrorIs(t, err, ErrText)
		require.ErrorContains(
			t, err, "message 2: text cannot be encoded: the chat template does not support messages of role tool",
		)
		_, err = c.ToolCalls("a", json.RawMessage(`[{"name": "f"}]`))
		require.ErrorContains(t, err, "the chat template does not show tool calls")
	}
}
