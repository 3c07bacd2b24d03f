package dialect

import (
	"encoding/json"
	"fmt"
	"strings"

	"vagen/internal/jsontext"
)

// ToolCall is a call of a tool in the form of chat completions.
type ToolCall struct {
	ID       string   `json:"id"`
	Function Function `json:"function"`
}

// Function is what a call calls. The arguments are a text, or JSON.
type Function struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// Call returns the call with an id.
func (f Function) Call(id string) Call {
	return Call{ID: id, Name: f.Name, Arguments: text(f.Arguments)}
}

// text returns the text of a JSON string, and other JSON as it is.
func text(raw json.RawMessage) string {
	if s, ok := jsontext.Text(raw); ok || !given(raw) {
		return s
	}
	return string(raw)
}

// billing begins a line of the system prompt with which Claude Code marks its version; it may
// differ from call to call.
const billing = "x-anthropic-billing-header:"

// read reads the messages of a request, and the instructions that some protocols have beside them.
func (r *Request) read(p Protocol, q *query) error {
	var instructions json.RawMessage
	name := Instructions
	switch p {
	case Responses:
		instructions = q.Instructions
	case Messages:
		instructions, name = q.System, "system"
	}
	if err := r.message(System, instructions, name, ""); err != nil {
		return err
	}
	first := &r.Messages[0]
	if strings.HasPrefix(first.Text, billing) {
		_, first.Text, _ = strings.Cut(first.Text, "\n")
	}
	if p == Responses {
		first.Replaced = Instructions
		return r.input(q.Input)
	}
	for i, in := range q.Messages {
		var calls []Call
		for _, c := range in.Calls {
			calls = append(calls, c.Function.Call(c.ID))
		}
		if err := r.message(in.Role, in.Content, fmt.Sprintf("messages[%d]", i), ".content", calls...); err != nil {
			return err
		}
	}
	return nil
}

// message adds a message, whose content is in the field at+name. Results of tools in the content become
// messages of their own, before it.
func (r *Request) message(role string, content json.RawMessage, at, name string, calls ...Call) error {
	switch role {
	case "developer":
		role = System
	case System, User, Assistant, Tool:
	default:
		return Bad(at+".role", "%q is not allowed, must be system, developer, user, assistant or tool", short(role))
	}
	m, before := Message{Role: role, Calls: calls}, len(r.Messages)
	if err := r.content(&m, content, at+name); err != nil {
		return err
	}
	if role == Assistant && len(m.Images) > 0 { // chat templates show none
		return Bad(m.Images[0].Field, "an image of the assistant, must be the user's or in the result of a tool")
	}
	if m.Text != "" || len(m.Calls) > 0 || len(r.Messages) == before {
		r.Messages = append(r.Messages, m)
	}
	return nil
}

// input reads the input of Responses, a text or items.
func (r *Request) input(raw json.RawMessage) error {
	if _, ok := jsontext.Text(raw); ok {
		return r.message(User, raw, "input", "")
	}
	var items []item
	if err := unmarshal(raw, "input", &items); err != nil {
		return err
	}
	for i := range items {
		if err := r.item(&items[i], fmt.Sprintf("input[%d]", i)); err != nil {
			return err
		}
	}
	return nil
}

// item is an item of the input of Responses.
type item struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	ID        string          `json:"id"`
	Content   json.RawMessage `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Output    json.RawMessage `json:"output"`
}

func (r *Request) item(in *item, field string) error {
	switch in.Type {
	case "", "message":
		return r.message(in.Role, in.Content, field, ".content")
	case "function_call":
		return r.message(Assistant, nil, field, "", Function{in.Name, in.Arguments}.Call(in.CallID))
	case "function_call_output":
		return r.message(Tool, in.Output, field, ".output")
	case "reasoning":
	case "item_reference":
		r.Messages = append(r.Messages, Message{Role: Reference, ID: in.ID, Text: field + ".id"})
	default:
		return Bad(field+".type", "%q is not allowed, must be message, function_call, function_call_output, reasoning or "+
			"item_reference", short(in.Type))
	}
	return nil
}
