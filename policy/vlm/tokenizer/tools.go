package tokenizer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"vagen/internal/pytext"
	"vagen/policy/vlm/tokenizer/internal/jinja"
)

// toolTurn is the text around a tool's result, or around several in a row.
type toolTurn struct {
	turn
	next      string // between two of them
	supported bool   // the template shows results
	images    bool   // they may have images
}

// result is the text around the result of a tool, messages[i]. Some templates put results in
// a row into one turn.
func (c *Chat) result(messages []Message, i int) turn {
	t := c.tool.turn
	if i > 0 && messages[i-1].Role == RoleTool {
		t.before = c.tool.next
	}
	if i+1 < len(messages) && messages[i+1].Role == RoleTool {
		t.after = ""
	}
	return t
}

// tools determines the text around the results of tools, which is optional. The responses around them precede the
// user's last message, because templates may show later ones otherwise.
func (p *probe) tools(c *Chat) {
	c.call = p
	thought := textC
	out, err := p.response(nil, textB, &thought)
	c.reasons = err == nil && strings.Contains(out, textC)
	opening := []Message{Text(RoleUser, "one"), Text(RoleAssistant, "two")}
	closing := []Message{Text(RoleAssistant, "three"), Text(RoleUser, "four")}
	results := func(role string) (string, error) {
		return p.render(false, slices.Concat(opening, []Message{Text(role, textA), Text(role, textB)}, closing)...)
	}
	if out, err = results(RoleTool); err != nil {
		return
	}
	const unknown = "qz-role"
	if other, err := results(unknown); err == nil && strings.ReplaceAll(other, unknown, RoleTool) == out {
		return
	}
	shown, err := c.Render(opening)
	rest, ok := strings.CutPrefix(out, shown)
	rest, okEnd := strings.CutSuffix(rest, c.assistant.wrap("three")+c.user.wrap("four"))
	before, rest, okA := strings.Cut(rest, textA)
	between, after, okB := strings.Cut(rest, textB)
	if err != nil || !ok || !okEnd || !okA || !okB {
		return
	}
	c.tool = toolTurn{turn: turn{before: before, after: after}, next: between, supported: true}
	if p.verifyTools(c) {
		return
	}
	c.tool.trim = true
	if p.verifyTools(c) {
		return
	}
	bare := strings.TrimSuffix(before, `"`)
	c.tool.next, okA = strings.CutPrefix(strings.TrimSuffix(between, `"`), `"`)
	c.tool.after, okB = strings.CutPrefix(after, `"`)
	c.tool.turn = turn{before: bare, after: c.tool.after, quote: true}
	c.tool.supported = okA && okB && bare != before && p.verifyTools(c)
}

// verifyTools compares conversations with results of tools with the template, and determines whether results may
// have images.
func (p *probe) verifyTools(c *Chat) bool {
	u, a, r := probeText(RoleUser), probeText(RoleAssistant), probeText(RoleTool)
	list := [][]Message{
		{u("one"), a("two"), r("three"), a("four"), u("five")},
		{u("one"), a("two"), r(" padded \n"), r("{\"x\": \"é <tag>\"}\n"), r(""), a("four"), u("five")},
		{u("one"), a("two"), r("three"), u("four"), a("five"), r("six"), a("seven"), r("eight"), a("nine"), u("ten")},
	}
	for _, m := range list {
		if c.hasSystem {
			m = append([]Message{probeText(RoleSystem)("be brief")}, m...)
		}
		if p.compare(c, m) != nil {
			return false
		}
	}
	last, err := p.render(true, list[0][:3]...)
	if err != nil || !strings.HasSuffix(last, c.assistant.after+c.tool.wrap("three")+c.generate) {
		return false
	}
	image := Part{Image: true}
	c.tool.images = true
	c.tool.images = c.image != "" && p.compare(c, []Message{
		u("one"), a("two"), {RoleTool, []Part{image, {Text: "\nsee "}, image}}, {RoleTool, []Part{image}}, a("four"),
		u("five"),
	}) == nil
	return true
}

// ToolCalls returns the text of a response that calls tools: text, and the calls as the
// template shows them. calls is a JSON list in the form of OpenAI or of transformers, whose
// arguments are an object or its JSON text; none is a response without calls. A thought in <think> at the beginning of
// the text gets the form in which the template shows the reasoning_content of the last response, if it does. The error
// wraps ErrText if calls have another form, or if the template does not show text and calls.
func (c *Chat) ToolCalls(text string, calls json.RawMessage) (string, error) {
	var list toolCalls
	if len(calls) > 0 {
		var err error
		if list, err = parseCalls(calls); err != nil {
			return "", fmt.Errorf("tokenizer: %w: %w", ErrText, err)
		}
	}
	before, err := c.Render([]Message{Text(RoleUser, textA)})
	if err != nil {
		return "", err
	}
	if out, ok := c.thoughtful(text, list, before); ok || len(list) == 0 {
		return out, nil
	}
	content := textB
	if text = c.assistant.shown(text); text == "" {
		content = ""
	}
	next := jinja.Dict{{Key: "role", Value: RoleUser}, {Key: "content", Value: textC}}
	out, err := c.call.response(list, content, nil, next)
	if err != nil {
		return "", fmt.Errorf("tokenizer: %w: the chat template cannot show tool calls: %w", ErrText, err)
	}
	out, okBefore := strings.CutPrefix(out, before+c.assistant.before)
	out, okAfter := strings.CutSuffix(out, c.assistant.after+c.user.wrap(textC))
	switch {
	case !okBefore || !okAfter:
		err = errors.New("the chat template shows tool calls outside of the assistant's message")
	case !strings.Contains(out, content):
		err = errors.New("the chat template does not show the text of a message with tool calls")
	case !list.in(out):
		err = errors.New("the chat template does not show tool calls")
	}
	if err != nil {
		return "", fmt.Errorf("tokenizer: %w: %w", ErrText, err)
	}
	return strings.Replace(out, textB, text, 1), nil
}

// ToolSystem returns the text of a system message that shows a text, "" for none, and definitions of tools, a JSON
// list, as the template shows them. The error wraps ErrText if it does not show them in such a message, or no results.
func (c *Chat) ToolSystem(text string, tools json.RawMessage) (string, error) {
	// The response precedes the user's last message, because templates may show later ones otherwise.
	rest := []Message{Text(RoleUser, textA), Text(RoleAssistant, textB), Text(RoleTool, textC), Text(RoleUser, textA)}
	all := rest
	if text != "" {
		all = slices.Insert(rest, 0, Text(RoleSystem, text))
	}
	after, err := c.Open(rest)
	without, wrong := c.Open(all)
	if err = cmp.Or(err, wrong); err != nil {
		return "", err
	}
	p := probe{c.call.template, maps.Clone(c.call.vars)}
	p.vars["tools"] = tools
	with, err := p.render(true, all...)
	if err != nil {
		return "", fmt.Errorf("tokenizer: %w: the chat template cannot show definitions of tools: %w", ErrText, err)
	}
	out := strings.TrimPrefix(with, c.system.before)
	out = strings.TrimSuffix(out, c.system.after+strings.TrimPrefix(after, c.open))
	again, err := c.Open(slices.Insert(rest, 0, Text(RoleSystem, out)))
	if err != nil || again != with || with == without || c.image != "" && !c.tool.images {
		return "", fmt.Errorf("tokenizer: %w: the chat template shows no definitions of tools in a system message, or "+
			"no images in results", ErrText)
	}
	return out, nil
}

// thoughtful returns a response that begins with a thought as the template shows the last one of a conversation,
// which begins with the text before. ok is false, and the text unchanged, if there is no thought or it shows none.
func (c *Chat) thoughtful(text string, calls toolCalls, before string) (_ string, ok bool) {
	inner, thinks := strings.CutPrefix(strings.TrimLeftFunc(text, pytext.Space), "<think>")
	thought, rest, closed := strings.Cut(inner, "</think>")
	if !c.reasons || !thinks || !closed {
		return text, false
	}
	out, err := c.call.response(calls, strings.TrimLeft(rest, "\n"), &thought)
	out, okBefore := strings.CutPrefix(out, before+strings.TrimSuffix(c.generate, c.opened))
	out, okAfter := strings.CutSuffix(out, c.assistant.after)
	if err != nil || !okBefore || !okAfter || !calls.in(out) {
		return text, false
	}
	return out, true
}

// response renders a response with calls between the question textA and later messages.
func (p *probe) response(calls toolCalls, content string, thought *string, after ...any) (string, error) {
	var first error
	question := jinja.Dict{{Key: "role", Value: RoleUser}, {Key: "content", Value: textA}}
	for _, quoted := range []bool{false, true} { // arguments as an object, or as its JSON text
		m := jinja.Dict{{Key: "role", Value: RoleAssistant}, {Key: "content", Value: content}}
		if thought != nil {
			m = append(m, jinja.Item{Key: "reasoning_content", Value: strings.Trim(*thought, "\n")})
		}
		if len(calls) > 0 {
			m = append(m, jinja.Item{Key: "tool_calls", Value: calls.shown(quoted)})
		}
		out, err := p.run(false, append([]any{question, m}, after...))
		if err == nil {
			return out, nil
		}
		first = cmp.Or(first, err)
	}
	return "", first
}

// toolCalls are the calls of a message.
type toolCalls []toolCall

// in reports whether a text has the names of all calls.
func (t toolCalls) in(text string) bool {
	return !slices.ContainsFunc(t, func(c toolCall) bool { return !strings.Contains(text, c.name) })
}

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

// shown returns the calls as templates get them, with arguments as objects or as JSON texts.
func (t toolCalls) shown(quoted bool) []any {
	list := make([]any, len(t))
	for i, c := range t {
		var arguments any = c.arguments
		if quoted {
			arguments = string(c.arguments)
		}
		list[i] = jinja.Dict{{Key: "id", Value: c.id}, {Key: "type", Value: "function"}, {Key: "function",
			Value: jinja.Dict{{Key: "name", Value: c.name}, {Key: "arguments", Value: arguments}}}}
	}
	return list
}
