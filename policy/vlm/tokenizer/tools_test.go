package tokenizer

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestToolsAreShownAsByTheTemplate: calls, results in a row, and definitions. The expected
// texts are those of jinja2 3.1.6 with the settings of transformers; the templates are those
// of Qwen2.5 with a shorter text, and of Llama 3.1 without its definitions of tools.
func TestToolsAreShownAsByTheTemplate(t *testing.T) {
	raw, err := os.ReadFile("testdata/tools.json")
	require.NoError(t, err)
	var recorded []struct {
		Template string
		Tools    json.RawMessage
		Messages []struct {
			Role, Content string
			Calls         json.RawMessage `json:"tool_calls"`
		}
		Text string
	}
	require.NoError(t, json.Unmarshal(raw, &recorded))
	for i, r := range recorded {
		vars := map[string]any{}
		if string(r.Tools) != "null" {
			vars["tools"] = r.Tools
		}
		c, err := withTemplate(t, r.Template, vars)
		require.NoError(t, err)
		require.True(t, c.hasTool)
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
		require.ErrorIs(t, err, ErrText)
		require.ErrorContains(t, err, want)
	}
	c = chatOf(t, llama)
	_, err = c.ToolCalls("first", json.RawMessage(`[{"name": "f"}]`))
	require.ErrorContains(t, err, "does not show the text of a message with tool calls")
	_, err = c.ToolCalls("", json.RawMessage(`[{"name": "f"}, {"name": "g"}]`))
	require.ErrorContains(t, err, "single tool-calls")
}

// TestTemplatesWithoutToolsRefuseThem: a template that writes the name of any role has none.
func TestTemplatesWithoutToolsRefuseThem(t *testing.T) {
	for _, template := range []string{tinyTemplate, trimming, alternating, thinking} {
		c := chatOf(t, template)
		require.False(t, c.hasTool)
		_, err := c.Open([]Message{Text(RoleUser, "a"), Text(RoleAssistant, "b"), Text(RoleTool, "c")})
		require.ErrorIs(t, err, ErrText)
		require.ErrorContains(
			t, err, "message 2: text cannot be encoded: the chat template does not support messages of role tool",
		)
		_, err = c.ToolCalls("a", json.RawMessage(`[{"name": "f"}]`))
		require.ErrorContains(t, err, "the chat template does not show tool calls")
	}
}
