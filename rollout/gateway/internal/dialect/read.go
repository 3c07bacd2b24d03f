package dialect

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"vagen/internal/jsontext"
)

// UnmarshalJSON reads a call in the form of chat completions, or its function alone. The arguments are a text, or JSON.
func (c *Call) UnmarshalJSON(raw []byte) error {
	type function struct {
		Name      string
		Arguments json.RawMessage
	}
	var in struct {
		function
		ID       string
		Function *function
	}
	err := json.Unmarshal(raw, &in)
	f := cmp.Or(in.Function, &in.function)
	*c = Call{in.ID, f.Name, textOf(f.Arguments)}
	return err
}

// textOf returns the text of a JSON string, and other JSON as it is.
func textOf(raw json.RawMessage) string {
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
	first.Replaced = Instructions
	if err := r.continued(p, q); err != nil {
		return err
	}
	items := q.Messages
	if p == Responses {
		if _, ok := jsontext.Text(q.Input); ok {
			items = []part{{Role: User, Content: q.Input}}
		} else if err := unmarshal(q.Input, r.Field, &items); err != nil {
			return err
		}
	}
	for i := range items {
		if p != Responses {
			items[i].Type = "message" // they have no other
		}
		if err := r.item(&items[i], fmt.Sprintf("%s[%d]", r.Field, i)); err != nil {
			return err
		}
	}
	return nil
}

// continued adds the conversation that a request continues by the id of its last answer.
func (r *Request) continued(p Protocol, q *query) error {
	id, field := "", ""
	switch {
	case p == Responses:
		id, field = q.Previous, "previous_response_id"
	case p == Messages && q.Thread.Type == "continue":
		if id, field = q.Thread.Previous, "thread.previous_message_id"; id == "" {
			return Bad(field, "missing")
		}
	case p == Messages && q.Thread.Type != "" && q.Thread.Type != "create":
		return Bad("thread.type", "%q is not allowed, must be create or continue", short(q.Thread.Type))
	}
	if id != "" {
		r.Messages = append(r.Messages, Message{Role: Conversation, ID: id, Text: field})
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

// item adds a message, or an item of Responses.
func (r *Request) item(in *part, field string) error {
	switch in.Type {
	case "", "message":
		return r.message(in.Role, in.Content, field, ".content", in.Calls...)
	case "function_call":
		return r.message(Assistant, nil, field, "", Call{in.CallID, in.Name, textOf(in.Arguments)})
	case "function_call_output":
		return r.message(Tool, in.Output, field, ".output")
	case "reasoning":
	case "item_reference":
		r.Messages = append(r.Messages, Message{Role: Reference, ID: textOf(in.ID), Text: field + ".id"})
	default:
		return Bad(field+".type", "%q is not allowed, must be message, function_call, function_call_output, reasoning or "+
			"item_reference", short(in.Type))
	}
	return nil
}
