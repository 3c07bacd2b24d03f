package dialect

import (
	"encoding/json"
)

type object = map[string]any

// chat is the answer of chat completions.
func (a *Answer) chat() object {
	m := object{"role": Assistant, "content": a.Text}
	if a.Text == "" && len(a.Calls) > 0 {
		m["content"] = nil
	}
	if a.Reasoning != "" {
		m["reasoning_content"] = a.Reasoning
	}
	if calls := a.toolCalls(); len(calls) > 0 {
		m["tool_calls"] = calls
	}
	return object{
		"id": "chatcmpl-" + a.ID, "object": "chat.completion", "created": a.Created, "model": a.Model,
		"choices": []object{{"index": 0, "message": m, "finish_reason": a.reason("tool_calls", "length", "stop")}},
		"usage":   a.usage("prompt", "completion"),
	}
}

func (a *Answer) toolCalls() []object {
	var out []object
	for _, c := range a.Calls {
		out = append(out, object{"id": c.ID, "type": "function", "function": object{"name": c.Name,
			"arguments": c.Arguments}})
	}
	return out
}

// reason is why the answer ended, by the names of a protocol for calls, the limit on tokens, and other ends.
func (a *Answer) reason(calls, length, other string) string {
	switch {
	case len(a.Calls) > 0:
		return calls
	case a.Length:
		return length
	}
	return other
}

// usage counts tokens, with the names that a protocol of OpenAI has for those of the prompt and of the answer.
func (a *Answer) usage(prompt, answer string) object {
	return object{
		prompt + "_tokens": a.Read, answer + "_tokens": a.Wrote, "total_tokens": a.Read + a.Wrote,
		prompt + "_tokens_details": object{"cached_tokens": 0, "cache_write_tokens": 0},
		answer + "_tokens_details": object{"reasoning_tokens": 0},
	}
}

// items are the output of Responses.
func (a *Answer) items() []object {
	out := []object{}
	if a.Reasoning != "" {
		item := object{"type": "reasoning", "id": "rs_" + a.ID, "summary": []object{{"type": "summary_text",
			"text": a.Reasoning}}}
		if a.Encrypted {
			item["encrypted_content"] = a.ID
		}
		out = append(out, item)
	}
	if a.Text != "" || len(a.Calls) == 0 {
		out = append(out, object{
			"type": "message", "id": "msg_" + a.ID, "role": Assistant, "status": "completed",
			"content": []object{{"type": "output_text", "text": a.Text, "annotations": []any{}, "logprobs": []any{}}},
		})
	}
	for _, c := range a.Calls {
		out = append(out, object{"type": "function_call", "id": "fc_" + c.ID, "call_id": c.ID, "name": c.Name,
			"arguments": c.Arguments, "status": "completed"})
	}
	return out
}

// begun is the answer of Responses before it has an item.
func (a *Answer) begun() object {
	return object{
		"id": "resp_" + a.ID, "object": "response", "created_at": a.Created, "status": "in_progress", "error": nil,
		"incomplete_details": nil, "instructions": nil, "metadata": object{}, "model": a.Model, "output": []object{},
		"parallel_tool_calls": true, "temperature": 1.0, "top_p": 1.0, "tool_choice": "auto", "tools": []any{},
		"usage": nil,
	}
}

// ended is the answer of Responses.
func (a *Answer) ended() object {
	out := a.begun()
	out["status"], out["output"], out["usage"] = "completed", a.items(), a.usage("input", "output")
	if a.Length {
		out["status"], out["incomplete_details"] = "incomplete", object{"reason": "max_output_tokens"}
	}
	return out
}

// blocks are the content of a message of Anthropic's.
func (a *Answer) blocks() []object {
	out := []object{}
	if a.Reasoning != "" && a.Thinking {
		out = append(out, object{"type": "thinking", "thinking": a.Reasoning, "signature": a.ID})
	}
	if a.Text != "" {
		out = append(out, object{"type": "text", "text": a.Text})
	}
	for _, c := range a.Calls {
		out = append(out, object{"type": "tool_use", "id": c.ID, "name": c.Name, "input": input(c.Arguments)})
	}
	return out
}

// input converts arguments to the JSON object of a tool_use. What is no object is sent as the only
// field of one, as Anthropic's protocol has no place for text.
func input(arguments string) any {
	var o map[string]json.RawMessage
	if json.Unmarshal([]byte(arguments), &o) == nil && o != nil {
		return o
	}
	return object{InvalidKey: arguments}
}

// InvalidKey is the field in which arguments are sent that are no JSON object.
const InvalidKey = "INVALID_JSON"

// message is the answer of Anthropic's messages.
func (a *Answer) message() object {
	reason, stopped := a.reason("tool_use", "max_tokens", "end_turn"), any(nil)
	if reason == "end_turn" && a.Stopped != "" {
		reason, stopped = "stop_sequence", a.Stopped
	}
	return object{
		"id": "msg_" + a.ID, "type": "message", "role": Assistant, "model": a.Model, "content": a.blocks(),
		"stop_reason": reason, "stop_sequence": stopped,
		"usage": object{"input_tokens": a.Read, "output_tokens": a.Wrote, "cache_creation_input_tokens": 0,
			"cache_read_input_tokens": 0},
	}
}
