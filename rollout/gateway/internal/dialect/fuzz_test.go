package dialect

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
)

// seeds adds the bodies of recorded requests to a path.
func seeds(f *testing.F, path string) {
	files, _ := filepath.Glob("../../../../testdata/gateway/*/0*.json")
	n := 0
	for _, name := range files {
		var x struct {
			Request struct {
				Path string
				Body json.RawMessage
			}
		}
		raw, err := os.ReadFile(name)
		if err == nil && json.Unmarshal(raw, &x) == nil && strings.HasSuffix(x.Request.Path, path) &&
			len(x.Request.Body) < 8000 {
			f.Add([]byte(x.Request.Body))
			n++
		}
	}
	if n == 0 {
		f.Fatal("no recorded requests to ", path)
	}
}

// decode decodes anything: the result keeps the contract, or the error is one for a client.
func decode(t *testing.T, p Protocol, body []byte) {
	r, err := p.decode(body, len(body)+1)
	short, failed := p.decode(body, 40)
	require.Equal(t, err == nil, failed == nil, "%v, but with long strings taken out %v", err, failed)
	require.Equal(t, r, short)
	if err != nil {
		bad := err.(*Error)
		require.Equal(t, 400, bad.Status)
		require.True(t, json.Valid(p.Body(bad)))
		return
	}
	require.NotEmpty(t, r.Messages)
	for _, m := range r.Messages {
		require.Equal(t, len(m.Images), strings.Count(m.Text, env.ImageMark))
	}
}

func FuzzChat(f *testing.F) {
	seeds(f, "/chat/completions")
	f.Fuzz(func(t *testing.T, body []byte) { decode(t, Chat, body) })
}

func FuzzResponses(f *testing.F) {
	seeds(f, "/responses")
	f.Fuzz(func(t *testing.T, body []byte) { decode(t, Responses, body) })
}

func FuzzMessages(f *testing.F) {
	seeds(f, "/messages")
	f.Fuzz(func(t *testing.T, body []byte) { decode(t, Messages, body) })
}

// TestErrorsNameFieldAndValue in the format of each protocol.
func TestErrorsNameFieldAndValue(t *testing.T) {
	for _, c := range []struct {
		p          Protocol
		body, want string
	}{
		{Chat, `{"messages": [{"role": "boss", "content": "x"}]}`, `messages[0].role: "boss" is not allowed`},
		{Chat, `{"messages": 7}`, `messages: number is not allowed, must be a list`},
		{Chat, `{"messages": [{"role": "user", "content": "x"}], "n": 4}`, `n: 4 is not allowed, must be 1`},
		{Chat, `{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x/y.png"}}]}]}`,
			`messages[0].content[0].image_url: "http://x/y.png" is not allowed`},
		{Chat, `{"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}`,
			`messages[0].content[0].type: "input_audio" is not allowed`},
		{Chat, `{"messages": []}`, `messages: empty`},
		{Chat, `{"messages": [{"role": "user", "content": "x"}], "tool_choice": "maybe"}`,
			`tool_choice: "maybe" is not allowed`},
		{Chat, `{"messages": [{"role": "user", "content": "x"}], "tool_choice": 7}`, `tool_choice: "7" is not allowed`},
		{Chat, `{"messages": [{"role": "user", "content": "x"}], "response_format": "xml"}`,
			`response_format.type: "xml" is not allowed`},
		{Chat, `{"messages": [{"role": "user", "content": "x"}], "stop": 7}`, `stop: number is not allowed, must be a list`},
		{Chat, `{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}`,
			`messages[0].content[0].image_url: "" is not allowed`},
		{Chat, `{"model": "` + strings.Repeat("m", 5000) + `"}`, `model: a name of 5000 bytes, at most 4096 are allowed`},
		{Chat, `{"messages": [{"role": "user", "content": "x"}], "stop": "` + strings.Repeat("s", 5000) + `"}`,
			`stop: 1 texts of 5000 bytes, at most 16 of 4096 are allowed`},
		{Chat, `{"messages": [{"role": "user", "content": "x"}], "tools": [{"name": 7}]}`,
			`tools.name: number is not allowed, must be a string`},
		{Chat, `{"temperature": "hot"}`, `temperature: string is not allowed, must be a number`},
		{Responses, `{"input": [{"type": "function_call", "name": 7}]}`, `input.name: number is not allowed, must be a string`},
		{Responses, `{"input": [{"type": "computer_call"}]}`, `input[0].type: "computer_call" is not allowed`},
		{Messages, `{"messages": [{"role": "user", "content": "x"}], "thread": {"type": "fork"}}`,
			`thread.type: "fork" is not allowed, must be create or continue`},
		{Messages, `{"messages": [{"role": "user", "content": [{"type": "document"}]}]}`,
			`messages[0].content[0].type: "document" is not allowed`},
		{Messages, `{"messages": [{"role": "user", "content": [{"type": "tool_result", "content": [{"type": "tool_result"}]}]}]}`,
			`messages[0].content[0].content[0].type: "tool_result" is not allowed in a result`},
		{Chat, strings.Repeat("[", 200), `nested more than 128 levels`},
		{Chat, `{"messages": `, `not valid JSON`},
		{Chat, `{"messages": [{"role": "user", "content": "x"}], "functions": [{"name": "f"}]}`,
			`functions: not allowed`},
		{Responses, `{"input": "x", "prompt": {"id": "p"}}`, `prompt: not allowed`},
	} {
		_, err := c.p.Decode([]byte(c.body))
		require.ErrorContains(t, err, c.want, c.body)
		require.NotContains(t, err.Error(), "sampling")
	}
}

// TestOtherTypesOfFieldsAreRead: clients send names for objects, objects for names, and null for nothing.
func TestOtherTypesOfFieldsAreRead(t *testing.T) {
	const user = `"messages": [{"role": "user", "content": "x"}], `
	for body, want := range map[string]Request{
		`"tools": [{"type": "custom", "name": "f", "input_schema": {}}]`: {},
		`"tools": [{"type": "custom", "custom": {"name": "f", "format": {"type": "grammar"}}}]`: {
			Overridden: []string{"tools"}, Constrained: []string{"tools.custom"}},
		`"tools": [{"type": "custom", "name": "f", "format": "text", "strict": null}]`: {
			Overridden: []string{"tools"}, Constrained: []string{"tools.custom"}},
		`"tool_choice": {"type": "auto"}, "response_format": "text", "thinking": false, "reasoning": "low"`: {},
		`"tool_choice": {"type": "any", "disable_parallel_tool_use": true}, "response_format": "json_object"`: {
			Overridden: []string{"parallel_tool_calls"}, Constrained: []string{"tool_choice", "response_format"}},
		`"n": 1.0, "stop": "a", "max_tokens": 1e3, "metadata": [1]`: {Overridden: []string{"max_tokens"}, Stop: []string{"a"}},
		`"reasoning_effort": "high", "chat_template_kwargs": {"enable_thinking": false}`: {
			Overridden: []string{"chat_template_kwargs", "reasoning_effort"}},
		`"structured_outputs": {"json": {}}, "regex": "a+", "guided_json": null, "min_p": 0.1, "thinking": {"budget_tokens": 9}`: {
			Constrained: []string{"structured_outputs", "regex"}, Overridden: []string{"min_p", "reasoning_effort"}},
		`"max_tokens": 7, "max_completion_tokens": 7`: {Overridden: []string{"max_tokens"}},
		`"reasoning": {"effort": "none"}, "chat_template_kwargs": {}`: {
			Overridden: []string{"reasoning_effort"}},
		`"output_config": {"effort": "low"}, "reasoning_effort": null`: {
			Overridden: []string{"reasoning_effort"}},
		`"stop": null, "stop_sequences": ["a", ""], "stream_options": null`:    {Stop: []string{"a"}},
		`"logprobs": false, "logit_bias": {}, "thinking": {"type": "enabled"}`: {Form: Form{Thinking: true}},
	} {
		r, err := Messages.Decode([]byte("{" + user + body + "}"))
		require.Nil(t, err, body)
		want.Model = ModelName
		got := Request{Constrained: r.Constrained, Overridden: r.Overridden, Stop: r.Stop, Form: r.Form}
		require.Equal(t, want, got, body)
	}
}

// TestLongStringsAreRead as short ones, wherever they are.
func TestLongStringsAreRead(t *testing.T) {
	long := strings.Repeat("abcd", LongString)
	for p, body := range map[Protocol]string{
		Chat: `{"messages": [{"role": "user", "content": [{"type": "text", "text": "LONG"}, {"type": "image_url",
			"image_url": {"url": "data:image/png;base64,LONG"}}]}, {"role": "assistant", "tool_calls": [{"id": "LONG",
			"function": {"name": "f", "arguments": {"a": "LONG"}}}]}, {"role": "tool", "content": "a \u0001long:0\u0001"}],
			"stop": "LONG", "tools": [{"name": "f", "description": "LONG", "parameters": {"a": ["LONG"]}}]}`,
		Responses: `{"input": [{"role": "user", "content": "LONG"}, {"type": "function_call", "arguments": "LONG"},
			{"type": "function_call_output", "output": "LONG"}, {"type": "item_reference", "id": "LONG"}]}`,
		Messages: `{"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "base64", "data": "LONG"}}]},
			{"role": "assistant", "content": [{"type": "tool_use", "input": {"a": "LONG"}}]},
			{"role": "user", "content": [{"type": "tool_result", "content": "LONG"}]}]}`,
	} {
		for _, body := range []string{body, strings.Replace(body, "a \\u0001long:0\\u0001", "b", 1)} {
			decode(t, p, []byte(strings.ReplaceAll(body, "LONG", long)))
		}
	}
	short, texts, err := Shorten([]byte(`["`+long+`", "\\\"", "`+long+` "]`), LongString)
	require.Nil(t, err)
	require.Equal(t, `["\u0001long:0\u0001", "\\\"", "`+long+` "]`, string(short))
	require.Len(t, texts, 1)
	require.Equal(t, long, string(texts[0]))
}

// TestAClientCannotReferToItsLongStrings, also if it writes a letter of a mark as an escape: the policy would read the
// mark in place of the text.
func TestAClientCannotReferToItsLongStrings(t *testing.T) {
	_, err := Chat.Decode([]byte(`{"messages": [{"role": "user", "content": [{"type": "text", "text": "data:image/png;base64,` +
		strings.Repeat("abcd", LongString) + `"}, {"type": "image_url", "image_url": "\u0001\u006cong:0\u0001"}]}]}`))
	require.ErrorContains(t, err, "messages[0].content[1].image_url: ")
}

// TestCleanLeavesNoMark, also where one is inside another.
func TestCleanLeavesNoMark(t *testing.T) {
	for text, want := range map[string]string{"a<image>b": "ab", "<ima<image>ge>": "", "<image": "<image",
		"é<image><image>": "é"} {
		require.Equal(t, want, env.WithoutMarks(text))
	}
}

// TestManyTextsTakeNoTime: those of parts, and of adjacent messages, are joined at once.
func TestManyTextsTakeNoTime(t *testing.T) {
	const n = 20_000
	part, message := `{"type": "text", "text": "some words"},`, `{"role": "assistant", "content": "some words"},`
	body := `{"messages": [{"role": "user", "content": [` + strings.Repeat(part, n) + part[:len(part)-1] + `]},` +
		strings.Repeat(message, n) + `{"role": "user", "content": "x"}]}`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r, err := Chat.Decode([]byte(body))
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	require.Len(t, r.Messages, 3)
	require.Equal(t, n, strings.Count(r.Messages[0].Text, "\n"))
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(200<<20))
}

// TestManyValuesAreRefused: decoded, those of a body at the limit of its size would take gigabytes.
func TestManyValuesAreRefused(t *testing.T) {
	for p, field := range map[Protocol]string{Chat: "messages", Responses: "input", Messages: "tools"} {
		values := strings.Repeat("{},", maxValues+1)
		_, err := p.Decode([]byte(`{"` + field + `": [` + values + `{}]}`))
		require.ErrorContains(t, err, "more than 262144 values")
	}
	commas := strings.Repeat(",", maxValues+1)
	_, err := Chat.Decode([]byte(`{"messages": [{"role": "user", "content": "` + commas + `"}]}`))
	require.NoError(t, err)
}

// TestAnImageOfTheAssistantIsRefused: with it the policy could not read the conversation, and the episode would fail.
func TestAnImageOfTheAssistantIsRefused(t *testing.T) {
	_, err := Chat.Decode([]byte(`{"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": [
		{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}, {"role": "user", "content": "y"}]}`))
	require.ErrorContains(t, err, "messages[1].content[0].image_url: an image of the assistant")
}

// TestDeferredToolsAreShownWhereAResultRefersToThem, each once, so that the tools of a conversation stay as they are.
func TestDeferredToolsAreShownWhereAResultRefersToThem(t *testing.T) {
	const reference = `{"type": "tool_reference", "tool_name": "late"}`
	r, err := Messages.Decode([]byte(`{"tools": [{"name": "f"}, {"name": "late", "defer_loading": true}], "messages": [
		{"role": "user", "content": [{"type": "tool_result", "content": [` + reference + `, ` + reference + `]}]}]}`))
	require.NoError(t, err)
	require.Equal(t, `{"type":"function","function":{"name":"f"}}`, r.Tools)
	require.Equal(t, `{"type":"function","function":{"name":"late"}}`+"\nlate", r.Messages[0].Text)
	r, err = Messages.Decode([]byte(`{"tools": [{"type": "tool_search_tool_regex", "name": "s"}, {"name": "late",
		"defer_loading": true}], "messages": [{"role": "user", "content": "x"}]}`))
	require.NoError(t, err)
	require.Contains(t, r.Tools, "late")
}

// TestUsageHasWhatClientsRequire: the types of openai-python have no default for these fields.
func TestUsageHasWhatClientsRequire(t *testing.T) {
	parts, _ := Responses.Answer(new(Answer))
	require.Contains(t, string(parts[0]),
		`"input_tokens_details":{"cache_write_tokens":0,"cached_tokens":0}`)
}
