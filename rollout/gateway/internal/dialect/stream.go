package dialect

import (
	"fmt"
	"maps"
	"slices"
)

// Answer returns an answer in the form that it has, as the parts of a body with a content type: whole, or as the events
// of a stream, each with its "event:" and "data:" lines.
func (p Protocol) Answer(a *Answer) (parts [][]byte, kind string) {
	whole, events := (*Answer).chat, (*stream).chat
	switch p {
	case Responses:
		whole, events = (*Answer).ended, (*stream).responses
	case Messages:
		whole, events = (*Answer).message, (*stream).message
	}
	if !a.Stream {
		return [][]byte{marshal(whole(a))}, "application/json"
	}
	var s stream
	events(&s, a)
	return s.events, "text/event-stream"
}

// stream collects events.
type stream struct {
	events [][]byte
	number int // of events of Responses
}

func (s *stream) data(v any) {
	s.events = append(s.events, fmt.Appendf(nil, "data: %s\n\n", marshal(v)))
}

func (s *stream) event(name string, fields object) {
	fields["type"] = name
	s.events = append(s.events, fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, marshal(fields)))
}

// pieceSize is the size of pieces of texts in characters.
const pieceSize = 256

// pieces cuts a text between characters.
func pieces(text string) (out []string) {
	for piece := range slices.Chunk([]rune(text), pieceSize) {
		out = append(out, string(piece))
	}
	return out
}

func (s *stream) chat(a *Answer) {
	chunk := a.chat()
	usage, finish := chunk["usage"], chunk["choices"].([]object)[0]["finish_reason"]
	delete(chunk, "usage")
	chunk["object"] = "chat.completion.chunk"
	send := func(delta object, finish any) {
		chunk["choices"] = []object{{"index": 0, "delta": delta, "finish_reason": finish}}
		s.data(chunk)
	}
	send(object{"role": Assistant, "content": ""}, nil)
	for _, t := range pieces(a.Reasoning) {
		send(object{"reasoning_content": t}, nil)
	}
	for _, t := range pieces(a.Text) {
		send(object{"content": t}, nil)
	}
	for i, c := range a.toolCalls() {
		c["index"], c["function"].(object)["arguments"] = i, ""
		send(object{"tool_calls": []object{c}}, nil)
		for _, t := range pieces(a.Calls[i].Arguments) {
			send(object{"tool_calls": []object{{"index": i, "function": object{"arguments": t}}}}, nil)
		}
	}
	send(object{}, finish)
	if a.Usage {
		chunk["choices"], chunk["usage"] = []object{}, usage
		s.data(chunk)
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
	s.numbered("created", object{"response": a.begun()})
	s.numbered("in_progress", object{"response": a.begun()})
	whole := a.ended()
	for i, item := range whole["output"].([]object) {
		begin := func(field string, empty any) {
			start := maps.Clone(item)
			if start[field] = empty; start["status"] != nil {
				start["status"] = "in_progress"
			}
			s.numbered("output_item.added", object{"output_index": i, "item": start})
		}
		switch item["type"] {
		case "message":
			begin("content", []any{})
			s.part("content_part", "output_text", "content_index", item["id"], i, item["content"])
		case "function_call":
			begin("arguments", "")
			arguments := item["arguments"].(string)
			for _, t := range pieces(arguments) {
				s.numbered("function_call_arguments.delta", object{"item_id": item["id"], "output_index": i, "delta": t})
			}
			s.numbered("function_call_arguments.done", object{"item_id": item["id"], "output_index": i,
				"arguments": arguments, "name": item["name"]})
		default:
			begin("summary", []any{})
			s.part("reasoning_summary_part", "reasoning_summary_text", "summary_index", item["id"], i, item["summary"])
		}
		s.numbered("output_item.done", object{"output_index": i, "item": item})
	}
	s.numbered(whole["status"].(string), object{"response": whole})
}

// part sends the only part of an item of Responses, by the names of its events.
func (s *stream) part(part, text, index string, id any, item int, parts any) {
	send := func(name, field string, v any) {
		s.numbered(name, object{"item_id": id, "output_index": item, index: 0, "logprobs": []any{}, field: v})
	}
	whole := parts.([]object)[0]
	empty := maps.Clone(whole)
	empty["text"] = ""
	send(part+".added", "part", empty)
	for _, t := range pieces(whole["text"].(string)) {
		send(text+".delta", "delta", t)
	}
	send(text+".done", "text", whole["text"])
	send(part+".done", "part", whole)
}

func (s *stream) message(a *Answer) {
	whole := a.message()
	first := maps.Clone(whole)
	first["content"], first["stop_reason"], first["stop_sequence"] = []object{}, nil, nil
	s.event("message_start", object{"message": first})
	for i, b := range whole["content"].([]object) {
		start, kind, field, text := maps.Clone(b), "text", "text", a.Text
		switch b["type"] {
		case "text":
			start["text"] = ""
		case "thinking":
			start["thinking"], start["signature"] = "", ""
			kind, field, text = "thinking", "thinking", a.Reasoning
		default:
			start["input"] = object{}
			kind, field, text = "input_json", "partial_json", string(marshal(b["input"]))
		}
		s.event("content_block_start", object{"index": i, "content_block": start})
		delta := func(kind, field string, v any) {
			s.event("content_block_delta", object{"index": i, "delta": object{"type": kind + "_delta", field: v}})
		}
		for _, t := range pieces(text) {
			delta(kind, field, t)
		}
		if signature := b["signature"]; signature != nil {
			delta("signature", "signature", signature)
		}
		s.event("content_block_stop", object{"index": i})
	}
	s.event("message_delta", object{
		"delta": object{"stop_reason": whole["stop_reason"], "stop_sequence": whole["stop_sequence"]},
		"usage": object{"output_tokens": a.Wrote},
	})
	s.event("message_stop", object{})
}
