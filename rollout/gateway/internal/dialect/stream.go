package dialect

import "unicode/utf8"

// Events returns an answer as the events of a stream, each with its "event:" and "data:" lines.
func (p Protocol) Events(a *Answer) [][]byte {
	var s stream
	switch p {
	case Chat:
		s.chat(a)
	case Responses:
		s.responses(a)
	default:
		s.message(a)
	}
	return s.events
}

// stream collects events.
type stream struct {
	events [][]byte
	number int // of events of Responses
}

func (s *stream) data(v any) { s.events = append(s.events, []byte("data: "+string(marshal(v))+"\n\n")) }

func (s *stream) event(name string, fields object) {
	fields["type"] = name
	s.events = append(s.events, []byte("event: "+name+"\ndata: "+string(marshal(fields))+"\n\n"))
}

// pieceSize is the size of pieces of texts in bytes.
const pieceSize = 256

// pieces cuts a text between characters.
func pieces(text string) []string {
	var out []string
	for len(text) > pieceSize {
		n := pieceSize
		for n > 1 && !utf8.RuneStart(text[n]) {
			n--
		}
		out, text = append(out, text[:n]), text[n:]
	}
	if text != "" {
		out = append(out, text)
	}
	return out
}

func (s *stream) chat(a *Answer) {
	send := func(delta object, finish any) {
		s.data(object{
			"id": "chatcmpl-" + a.ID, "object": "chat.completion.chunk", "created": a.Created, "model": a.Model,
			"choices": []object{{"index": 0, "delta": delta, "finish_reason": finish}},
		})
	}
	send(object{"role": Assistant, "content": ""}, nil)
	for _, t := range pieces(a.Reasoning) {
		send(object{"reasoning_content": t}, nil)
	}
	for _, t := range pieces(a.Text) {
		send(object{"content": t}, nil)
	}
	for i, c := range a.toolCalls() {
		f := c["function"].(object)
		arguments := f["arguments"].(string)
		f["arguments"], c["index"] = "", i
		send(object{"tool_calls": []object{c}}, nil)
		for _, t := range pieces(arguments) {
			send(object{"tool_calls": []object{{"index": i, "function": object{"arguments": t}}}}, nil)
		}
	}
	send(object{}, a.finish())
	if a.Usage {
		s.data(object{
			"id": "chatcmpl-" + a.ID, "object": "chat.completion.chunk", "created": a.Created, "model": a.Model,
			"choices": []object{}, "usage": a.chatUsage(),
		})
	}
	s.events = append(s.events, []byte("data: [DONE]\n\n"))
}

// numbered sends an event of Responses.
func (s *stream) numbered(name string, fields object) {
	fields["sequence_number"] = s.number
	s.number++
	s.event("response."+name, fields)
}

func (s *stream) responses(a *Answer) {
	s.numbered("created", object{"response": a.response("in_progress", []object{})})
	s.numbered("in_progress", object{"response": a.response("in_progress", []object{})})
	for i, item := range a.items() {
		start := object{}
		for k, v := range item {
			start[k] = v
		}
		switch item["type"] {
		case "message":
			start["status"], start["content"] = "in_progress", []any{}
			s.numbered("output_item.added", object{"output_index": i, "item": start})
			s.text(item["id"], i, a.Text, item["content"].([]object)[0])
		case "function_call":
			start["status"], start["arguments"] = "in_progress", ""
			s.numbered("output_item.added", object{"output_index": i, "item": start})
			arguments := item["arguments"].(string)
			for _, t := range pieces(arguments) {
				s.numbered("function_call_arguments.delta", object{"item_id": item["id"], "output_index": i, "delta": t})
			}
			s.numbered("function_call_arguments.done", object{"item_id": item["id"], "output_index": i,
				"arguments": arguments, "name": item["name"]})
		default:
			start["summary"] = []any{}
			s.numbered("output_item.added", object{"output_index": i, "item": start})
			s.summary(item["id"], i, a.Reasoning)
		}
		s.numbered("output_item.done", object{"output_index": i, "item": item})
	}
	whole := a.response("completed", a.items())
	s.numbered(whole["status"].(string), object{"response": whole})
}

// text sends the text of an item of Responses.
func (s *stream) text(id any, index int, text string, done object) {
	at := func(fields object) object {
		fields["item_id"], fields["output_index"], fields["content_index"] = id, index, 0
		return fields
	}
	s.numbered("content_part.added", at(object{"part": object{"type": "output_text", "text": "", "annotations": []any{}}}))
	for _, t := range pieces(text) {
		s.numbered("output_text.delta", at(object{"delta": t, "logprobs": []any{}}))
	}
	s.numbered("output_text.done", at(object{"text": text, "logprobs": []any{}}))
	s.numbered("content_part.done", at(object{"part": done}))
}

// summary sends the reasoning of an item of Responses.
func (s *stream) summary(id any, index int, text string) {
	at := func(fields object) object {
		fields["item_id"], fields["output_index"], fields["summary_index"] = id, index, 0
		return fields
	}
	s.numbered("reasoning_summary_part.added", at(object{"part": object{"type": "summary_text", "text": ""}}))
	for _, t := range pieces(text) {
		s.numbered("reasoning_summary_text.delta", at(object{"delta": t}))
	}
	s.numbered("reasoning_summary_text.done", at(object{"text": text}))
	s.numbered("reasoning_summary_part.done", at(object{"part": object{"type": "summary_text", "text": text}}))
}

func (s *stream) message(a *Answer) {
	s.event("message_start", object{"message": a.message([]object{}, nil)})
	for i, b := range a.blocks() {
		delta := func(d object) { s.event("content_block_delta", object{"index": i, "delta": d}) }
		start := func(b object) { s.event("content_block_start", object{"index": i, "content_block": b}) }
		switch b["type"] {
		case "text":
			start(object{"type": "text", "text": ""})
			for _, t := range pieces(a.Text) {
				delta(object{"type": "text_delta", "text": t})
			}
		case "thinking":
			start(object{"type": "thinking", "thinking": "", "signature": ""})
			for _, t := range pieces(a.Reasoning) {
				delta(object{"type": "thinking_delta", "thinking": t})
			}
			delta(object{"type": "signature_delta", "signature": b["signature"]})
		default:
			start(object{"type": "tool_use", "id": b["id"], "name": b["name"], "input": object{}})
			for _, t := range pieces(string(marshal(b["input"]))) {
				delta(object{"type": "input_json_delta", "partial_json": t})
			}
		}
		s.event("content_block_stop", object{"index": i})
	}
	end := a.message(nil, a.stopReason())
	s.event("message_delta", object{
		"delta": object{"stop_reason": end["stop_reason"], "stop_sequence": end["stop_sequence"]},
		"usage": object{"output_tokens": a.Wrote},
	})
	s.event("message_stop", object{})
}
