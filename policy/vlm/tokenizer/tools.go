package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"vagen/policy/vlm/tokenizer/internal/jinja"
)

// result is the text around the result of a tool, messages[i]. Some templates put results in
// a row into one turn.
func (c *Chat) result(messages []Message, i int) turn {
	t := c.tool
	if i > 0 && messages[i-1].Role == RoleTool {
		t.before = c.nextTool
	}
	if i+1 < len(messages) && messages[i+1].Role == RoleTool {
		t.after = ""
	}
	return t
}

// tools determines the text around the results of tools, which is optional.
func (p *probe) tools(c *Chat) {
	c.call = p
	opening := []Message{Text(RoleUser, "one"), Text(RoleAssistant, "two")}
	results := func(role string) (string, error) {
		return p.render(false, append(opening, Text(role, textA), Text(role, textB))...)
	}
	out, err := results(RoleTool)
	if err != nil {
		return
	}
	const unknown = "qz-role"
	if other, err := results(unknown); err == nil && strings.ReplaceAll(other, unknown, RoleTool) == out {
		return
	}
	shown, err := c.Render(opening)
	rest, ok := strings.CutPrefix(out, shown)
	before, rest, okA := strings.Cut(rest, textA)
	between, after, okB := strings.Cut(rest, textB)
	if err != nil || !ok || !okA || !okB {
		return
	}
	c.tool, c.nextTool, c.hasTool = turn{before: before, after: after}, between, true
	if p.verifyTools(c) {
		return
	}
	c.tool.trim = true
	if p.verifyTools(c) {
		return
	}
	bare := strings.TrimSuffix(before, `"`)
	c.nextTool, okA = strings.CutPrefix(strings.TrimSuffix(between, `"`), `"`)
	c.tool.after, okB = strings.CutPrefix(after, `"`)
	c.tool = turn{before: bare, after: c.tool.after, quote: true}
	c.hasTool = okA && okB && bare != before && p.verifyTools(c)
}

// verifyTools compares conversations with results of tools with the template.
func (p *probe) verifyTools(c *Chat) bool {
	u, a, r := probeText(RoleUser), probeText(RoleAssistant), probeText(RoleTool)
	list := [][]Message{
		{u("one"), a("two"), r("three")},
		{u("one"), a("two"), r(" padded \n"), r("{\"x\": \"é <tag>\"}\n"), r(""), a("four"), u("five")},
		{u("one"), a("two"), r("three"), u("four"), a("five"), r("six"), a("seven"), r("eight")},
	}
	for _, m := range list {
		if c.hasSystem {
			m = append([]Message{probeText(RoleSystem)("be brief")}, m...)
		}
		if p.compare(c, m) != nil {
			return false
		}
	}
	return true
}

// ToolCalls returns the text of a response that calls tools: text, and the calls as the
// template shows them. calls is a JSON list in the form of OpenAI or of transformers, whose
// arguments are an object or its JSON text. The error wraps ErrText if they have another form, or
// if the template does not show text and calls.
func (c *Chat) ToolCalls(text string, calls json.RawMessage) (string, error) {
	list, err := parseCalls(calls)
	if err != nil {
		return "", fmt.Errorf("tokenizer: %w: %w", ErrText, err)
	}
	before, err := c.Render([]Message{Text(RoleUser, textA)})
	if err != nil {
		return "", err
	}
	content := textB
	if text == "" {
		content = ""
	}
	var out string
	for _, quoted := range []bool{false, true} { // arguments as an object, or as its JSON text
		if out, err = c.call.run(false, []any{
			jinja.Dict{{Key: "role", Value: RoleUser}, {Key: "content", Value: textA}},
			jinja.Dict{
				{Key: "role", Value: RoleAssistant}, {Key: "content", Value: content},
				{Key: "tool_calls", Value: list.json(quoted)},
			},
			jinja.Dict{{Key: "role", Value: RoleUser}, {Key: "content", Value: textC}},
		}); err == nil {
			break
		}
	}
	if err != nil {
		return "", fmt.Errorf("tokenizer: %w: the chat template cannot show tool calls: %w", ErrText, err)
	}
	out, okBefore := strings.CutPrefix(out, before+c.assistant.before)
	out, okAfter := strings.CutSuffix(out, c.assistant.after+c.user.wrap(textC))
	if !okBefore || !okAfter {
		return "", fmt.Errorf(
			"tokenizer: %w: the chat template shows tool calls outside of the assistant's message", ErrText,
		)
	}
	if !strings.Contains(out, content) {
		return "", fmt.Errorf(
			"tokenizer: %w: the chat template does not show the text of a message with tool calls", ErrText,
		)
	}
	for _, call := range list {
		if !strings.Contains(out, call.name) {
			return "", fmt.Errorf("tokenizer: %w: the chat template does not show tool calls", ErrText)
		}
	}
	return strings.Replace(out, textB, text, 1), nil
}

// toolCalls are the calls of a message.
type toolCalls []toolCall

type toolCall struct {
	id, name  string
	arguments json.RawMessage // an object
}

// parseCalls reads calls in the form {"function": {"name", "arguments"}}, or without the outer
// object.
func parseCalls(raw json.RawMessage) (toolCalls, error) {
	type function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	var list []struct {
		function
		ID       string    `json:"id"`
		Function *function `json:"function"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("tool_calls must be a list of calls, each with a name and arguments: %w", err)
	}
	var out toolCalls
	for i, c := range list {
		f := c.function
		if c.Function != nil {
			f = *c.Function
		}
		if f.Name == "" {
			return nil, fmt.Errorf("tool_calls[%d] has no name of a function", i)
		}
		var text string
		if json.Unmarshal(f.Arguments, &text) == nil { // also for null
			f.Arguments = json.RawMessage(text)
		}
		if strings.TrimSpace(string(f.Arguments)) == "" {
			f.Arguments = json.RawMessage("{}")
		}
		var object map[string]json.RawMessage
		if err := json.Unmarshal(f.Arguments, &object); err != nil || object == nil {
			return nil, fmt.Errorf(
				"tool_calls[%d]: arguments are %.40s, must be an object or its JSON text", i, f.Arguments,
			)
		}
		out = append(out, toolCall{c.ID, f.Name, f.Arguments})
	}
	if len(out) == 0 {
		return nil, errors.New("tool_calls is empty")
	}
	return out, nil
}

// json returns the calls as templates get them, with arguments as objects or as JSON texts.
func (t toolCalls) json(quoted bool) json.RawMessage {
	var b strings.Builder
	for i, c := range t {
		arguments := string(c.arguments)
		if quoted {
			arguments = jinja.Quote(arguments)
		}
		separator := ", "
		if i == 0 {
			separator = "["
		}
		fmt.Fprintf(&b, `%s{"id": %s, "type": "function", "function": {"name": %s, "arguments": %s}}`,
			separator, jinja.Quote(c.id), jinja.Quote(c.name), arguments)
	}
	return json.RawMessage(b.String() + "]")
}
