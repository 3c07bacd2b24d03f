package dialect

import (
	"encoding/json"
	"fmt"
	"strings"

	"vagen/env"
)

// chat reads a request of chat completions.
func (r *Request) chat(body []byte) error {
	var q struct {
		common
		Messages []struct {
			Role      string          `json:"role"`
			Content   json.RawMessage `json:"content"`
			ToolCalls []struct {
				ID       string `json:"id"`
				Function struct {
					Name      string          `json:"name"`
					Arguments json.RawMessage `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"messages"`
		Tools   json.RawMessage `json:"tools"`
		Options *struct {
			Usage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	if err := unmarshal(body, "", &q); err != nil {
		return err
	}
	if err := q.read(r); err != nil {
		return err
	}
	r.Usage = q.Options != nil && q.Options.Usage
	if err := r.tools(q.Tools); err != nil {
		return err
	}
	for i, in := range q.Messages {
		field := fmt.Sprintf("messages[%d]", i)
		m := Message{}
		switch in.Role {
		case System, "developer":
			m.Role = System
		case User, Assistant, Tool:
			m.Role = in.Role
		default:
			return bad(field+".role", "%q is not allowed, must be system, developer, user, assistant or tool", short(in.Role))
		}
		if err := r.content(&m, in.Content, field+".content"); err != nil {
			return err
		}
		for _, c := range in.ToolCalls {
			m.Calls = append(m.Calls, Call{ID: c.ID, Name: c.Function.Name, Arguments: text(c.Function.Arguments)})
		}
		r.Messages = append(r.Messages, m)
	}
	return nil
}

// text returns the text of a JSON string, and other JSON as it is.
func text(raw json.RawMessage) string {
	if s, ok := quoted(raw); ok || !given(raw) {
		return s
	}
	return string(raw)
}

// responses reads a request of Responses.
func (r *Request) responses(body []byte) error {
	var q struct {
		common
		Instructions json.RawMessage `json:"instructions"`
		Input        json.RawMessage `json:"input"`
		Tools        json.RawMessage `json:"tools"`
		Previous     string          `json:"previous_response_id"`
		Include      []string        `json:"include"`
		Text         struct {
			Format json.RawMessage `json:"format"`
		} `json:"text"`
	}
	if err := unmarshal(body, "", &q); err != nil {
		return err
	}
	if err := q.read(r); err != nil {
		return err
	}
	if err := r.tools(q.Tools); err != nil {
		return err
	}
	if err := r.format("text.format", q.Text.Format); err != nil {
		return err
	}
	r.Previous = q.Previous
	for _, name := range q.Include {
		r.Encrypted = r.Encrypted || name == "reasoning.encrypted_content"
		if name == "message.output_text.logprobs" {
			r.Overridden = append(r.Overridden, "logprobs")
		}
	}
	if given(q.Instructions) {
		m := Message{Role: System}
		if err := r.content(&m, q.Instructions, "instructions"); err != nil {
			return err
		}
		r.Messages = append(r.Messages, m)
	}
	if one, ok := quoted(q.Input); ok {
		r.Messages = append(r.Messages, Message{Role: User, Text: env.WithoutMarks(one)})
		return nil
	}
	var items []item
	if err := unmarshal(q.Input, "input", &items); err != nil {
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
	m := Message{}
	switch in.Type {
	case "", "message":
		switch in.Role {
		case System, "developer":
			m.Role = System
		case User, Assistant:
			m.Role = in.Role
		default:
			return bad(field+".role", "%q is not allowed, must be system, developer, user or assistant", short(in.Role))
		}
		if err := r.content(&m, in.Content, field+".content"); err != nil {
			return err
		}
	case "function_call":
		m.Role, m.Calls = Assistant, []Call{{ID: in.CallID, Name: in.Name, Arguments: text(in.Arguments)}}
	case "function_call_output":
		m.Role = Tool
		if err := r.content(&m, in.Output, field+".output"); err != nil {
			return err
		}
	case "reasoning":
		return nil
	case "item_reference":
		m.Role, m.ID = Reference, in.ID
	default:
		return bad(field+".type", "%q is not allowed, must be message, function_call, function_call_output, reasoning or item_reference", short(in.Type))
	}
	r.Messages = append(r.Messages, m)
	return nil
}

// billing begins a line of the system prompt with which Claude Code marks its version; it may
// differ from call to call.
const billing = "x-anthropic-billing-header:"

// messages reads a request of Anthropic's messages.
func (r *Request) messages(body []byte) error {
	var q struct {
		common
		System   json.RawMessage `json:"system"`
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
		Tools    json.RawMessage `json:"tools"`
		Stops    json.RawMessage `json:"stop_sequences"`
		Thinking struct {
			Type string `json:"type"`
		} `json:"thinking"`
		Output struct {
			Format json.RawMessage `json:"format"`
		} `json:"output_config"`
	}
	if err := unmarshal(body, "", &q); err != nil {
		return err
	}
	if err := q.read(r); err != nil {
		return err
	}
	if err := r.tools(q.Tools); err != nil {
		return err
	}
	if err := r.format("output_config.format", q.Output.Format); err != nil {
		return err
	}
	if err := r.stop("stop_sequences", q.Stops); err != nil {
		return err
	}
	r.Thinking = q.Thinking.Type == "enabled" || q.Thinking.Type == "adaptive"
	m := Message{Role: System}
	if err := r.content(&m, q.System, "system"); err != nil {
		return err
	}
	if strings.HasPrefix(m.Text, billing) {
		_, m.Text, _ = strings.Cut(m.Text, "\n")
	}
	if m.Text != "" {
		r.Messages = append(r.Messages, m)
	}
	for i, in := range q.Messages {
		if err := r.blocks(in.Role, in.Content, fmt.Sprintf("messages[%d]", i)); err != nil {
			return err
		}
	}
	return nil
}

// blocks reads a message of Anthropic's: results of tools are messages of their own.
func (r *Request) blocks(role string, raw json.RawMessage, field string) error {
	if role != User && role != Assistant && role != System {
		return bad(field+".role", "%q is not allowed, must be user, assistant or system", short(role))
	}
	m := Message{Role: role}
	var parts []part
	if len(raw) == 0 || raw[0] == '"' || json.Unmarshal(raw, &parts) != nil {
		if err := r.content(&m, raw, field+".content"); err != nil {
			return err
		}
		r.Messages = append(r.Messages, m)
		return nil
	}
	for i := range parts {
		p, at := &parts[i], fmt.Sprintf("%s.content[%d]", field, i)
		switch {
		case p.Type == "tool_use" && role == Assistant:
			m.Calls = append(m.Calls, Call{ID: p.ID, Name: p.Name, Arguments: string(p.Input)})
		case p.Type == "tool_result" && role == User:
			result := Message{Role: Tool}
			if err := r.content(&result, p.Content, at+".content"); err != nil {
				return err
			}
			r.Messages = append(r.Messages, result)
		default:
			if err := r.part(&m, p, at); err != nil {
				return err
			}
		}
	}
	if m.Text != "" || len(m.Calls) > 0 || len(parts) == 0 {
		r.Messages = append(r.Messages, m)
	}
	return nil
}
