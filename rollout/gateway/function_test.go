package gateway

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/rollout/gateway/internal/dialect"
)

// TestCallsInTheFormOfQwen35AreRead, with the types that the definitions give to their values.
func TestCallsInTheFormOfQwen35AreRead(t *testing.T) {
	r, err := dialect.Chat.Decode([]byte(`{"messages": [{"role": "user", "content": "x"}], "tools": [
		{"type": "function", "function": {"name": "now"}},
		{"type": "function", "function": {"name": "plan", "parameters": {"type": "object", "properties": {
			"town": {"type": "string"}, "days": {"type": "integer"}, "precise": {"type": "boolean"}, "any": true,
			"until": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "list": {"type": ["array", "null"]},
			"at": {"$ref": "#/$defs/Place"}, "then": {"anyOf": [{"$ref": "#/$defs/Place"}, {"type": "null"}]}},
			"$defs": {"Place": {"type": "object"}}}}}]}`))
	require.NoError(t, err)
	tools := withTools(nil, r.Tools)[0].Text
	parameter := func(key, value string) string {
		return "<parameter=" + key + ">\n" + value + "\n</parameter>\n"
	}
	call := func(name, parameters string) string {
		return "<tool_call>\n<function=" + name + ">\n" + parameters + "</function>\n</tool_call>"
	}
	for text, want := range map[string]string{
		call("now", ""): `{}`,
		call("plan", parameter("town", "42")+parameter("days", "2")):          `{"town": "42", "days": 2}`,
		call("plan", parameter("precise", "True")+parameter("until", "None")): `{"precise": true, "until": null}`,
		call("plan", parameter("list", `[1, {"a": "ü"}]`)+parameter("any", "7")): `{"list": [1, {"a": "ü"}], ` +
			`"any": "7"}`,
		call("plan", parameter("until", "7")+parameter("days", "two")):          `{"until": "7", "days": "two"}`,
		call("plan", parameter("town", " two\n\n<b> \"lines\" ")):               `{"town": " two\n\n<b> \"lines\" "}`,
		call("plan", parameter("at", `{"x": 1}`)+parameter("then", `{"x": 2}`)): `{"at": {"x": 1}, "then": {"x": 2}}`,
		call("plan", parameter("town", "")):                                     `{"town": ""}`,
		call("unknown", parameter("days", "2")):                                 `{"days": "2"}`,
		"<tool_call><function=plan><parameter=days>2</function>":                `{"days": 2}`, // cut off
	} {
		a := newAnswer("e-1", "<think>\nplan\n</think>\n\nNow.\n\n"+text, nil, tools)
		require.Equal(t, "Now.", a.Text, text)
		require.Len(t, a.Calls, 1, text)
		require.Equal(t, want, a.Calls[0].Arguments, text)
	}
	for _, text := range []string{call("", ""), "<tool_call>\n<function=f\n</tool_call>"} {
		a := newAnswer("e-1", text, nil, tools)
		require.Empty(t, a.Calls)
		require.Equal(t, text, a.Text)
	}
}

// TestACallWithoutArgumentsHasAnEmptyObject, as those of OpenAI: clients decode the arguments of every call.
func TestACallWithoutArgumentsHasAnEmptyObject(t *testing.T) {
	for _, text := range []string{`{"name": "now"}`, `{"name": "now", "arguments": null}`, `{"name": "now"`} {
		a := newAnswer("e-1", "<tool_call>"+text+"</tool_call>", nil, "tools")
		require.Equal(t, "{}", a.Calls[0].Arguments, text)
	}
}

// TestCallsOfDeferredToolsHaveTheirTypes: the definition of a deferred tool is in a result, not in the instructions.
func TestCallsOfDeferredToolsHaveTheirTypes(t *testing.T) {
	const tools = `{"tools": [{"name": "search"}, {"name": "add", "defer_loading": true, "input_schema": {"type": "object",
		"properties": {"a": {"type": "integer"}}}}], "messages": [{"role": "user", "content": "x"}`
	ask := func(e *Episode, messages string) object {
		code, _, a := post(t, e.URL+"/v1/messages", "", tools+messages+`]}`)
		require.Equal(t, 200, code, a)
		return a["content"].([]any)[0].(object)
	}
	const add = "<function=add>\n<parameter=a>\n7\n</parameter>\n</function>"
	answers := []string{`{"name": "search", "arguments": {}}`, add}
	g := opened(t, paidFor(func(e *Episode) {
		id := ask(e, "")["id"].(string)
		call := ask(e, `, {"role": "assistant", "content": [
			{"type": "tool_use", "id": "`+id+`", "name": "search", "input": {}}]},
			{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "`+id+`", "content": [
			{"type": "tool_reference", "tool_name": "add"}]}]}`)
		require.Equal(t, object{"a": 7.0}, call["input"])
	}))
	turn := 0
	tr := play(t, g, &scripted{next: func(policy.Prompt) string {
		turn++
		return "<tool_call>" + answers[turn-1] + "</tool_call>"
	}}, nil)
	require.NoError(t, tr.Err)
	checkRows(t, tr)
	require.Len(t, tr.Rows, 1)
}
