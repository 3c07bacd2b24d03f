package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// spoken collects the parts of a recorded answer.
type spoken struct {
	reasoning, text string
	calls           []*spokenCall
}

type spokenCall struct{ name, arguments string }

// policyText is the response of a policy with which the gateway gives the recorded answer.
func (x *recording) policyText() string {
	if x.Response.Policy != nil {
		return *x.Response.Policy
	}
	var s spoken
	if len(x.Response.Body) > 0 {
		s.whole(x.Response.Body)
	}
	for _, event := range x.Response.SSE {
		if bytes.HasPrefix(event, []byte("\"...")) { // events that were left out
			s = x.decide()
			break
		}
		s.event(event)
	}
	out := s.text
	if s.reasoning != "" && !strings.Contains(out, "<think>") {
		out = "<think>\n" + s.reasoning + "\n</think>\n\n" + out
	}
	for _, c := range s.calls {
		out += fmt.Sprintf("\n<tool_call>\n{\"name\": %q, \"arguments\": %s}\n</tool_call>", c.name, c.arguments)
	}
	if out == "" && x.lost() {
		out = "an answer that nobody read"
	}
	return out
}

type block struct {
	Type, Text, Thinking, Name, Arguments string
	Input                                 json.RawMessage
	Content, Summary                      []struct{ Text string }
}

func (s *spoken) block(b block) {
	switch b.Type {
	case "text":
		s.text += b.Text
	case "thinking":
		s.reasoning += b.Thinking
	case "tool_use":
		s.calls = append(s.calls, &spokenCall{b.Name, string(b.Input)})
	case "function_call":
		s.calls = append(s.calls, &spokenCall{b.Name, b.Arguments})
	case "message":
		for _, c := range b.Content {
			s.text += c.Text
		}
	case "reasoning":
		for _, c := range b.Summary {
			s.reasoning += c.Text
		}
	}
}

type toolCalls []struct {
	Index    int
	Function struct{ Name, Arguments string }
}

func (s *spoken) toolCalls(calls toolCalls) {
	for i, c := range calls {
		if c.Function.Name != "" || len(s.calls) == 0 {
			s.calls = append(s.calls, &spokenCall{name: c.Function.Name})
		}
		at := len(s.calls) - 1
		if c.Function.Name == "" {
			at = min(at, max(c.Index, i))
		}
		s.calls[at].arguments += c.Function.Arguments
	}
}

// whole reads an answer in one body.
func (s *spoken) whole(raw json.RawMessage) {
	var b struct {
		Choices []struct {
			Message struct {
				Content   string
				Reasoning string    `json:"reasoning_content"`
				Calls     toolCalls `json:"tool_calls"`
			}
		}
		Content, Output []block
	}
	if json.Unmarshal(raw, &b) != nil {
		return
	}
	for _, c := range b.Choices[:min(1, len(b.Choices))] {
		s.text, s.reasoning = c.Message.Content, c.Message.Reasoning
		s.toolCalls(c.Message.Calls)
	}
	for _, part := range append(b.Content, b.Output...) {
		s.block(part)
	}
}

// event reads an event of a stream.
func (s *spoken) event(raw json.RawMessage) {
	var e struct {
		Type    string
		Choices []struct {
			Delta struct {
				Content   string
				Reasoning string    `json:"reasoning_content"`
				Calls     toolCalls `json:"tool_calls"`
			}
		}
		Response     json.RawMessage
		ContentBlock block `json:"content_block"`
		Delta        json.RawMessage
	}
	if json.Unmarshal(raw, &e) != nil {
		return
	}
	for _, c := range e.Choices {
		s.text, s.reasoning = s.text+c.Delta.Content, s.reasoning+c.Delta.Reasoning
		s.toolCalls(c.Delta.Calls)
	}
	var d struct {
		Text, Thinking string
		JSON           string `json:"partial_json"`
	}
	_ = json.Unmarshal(e.Delta, &d) // a text for other events
	switch e.Type {
	case "response.completed":
		s.whole(e.Response)
	case "content_block_start":
		e.ContentBlock.Input = nil
		s.block(e.ContentBlock)
	case "content_block_delta":
		s.text, s.reasoning = s.text+d.Text, s.reasoning+d.Thinking
		if d.JSON != "" {
			s.calls[len(s.calls)-1].arguments += d.JSON
		}
	}
}

// decide is the answer of the stub with which the exchanges were recorded, whose repeated streams
// are not in the files (decide in _stub.py).
func (x *recording) decide() spoken {
	var q struct {
		Tools []struct {
			Name     string
			Function struct{ Name string }
		}
	}
	_ = json.Unmarshal(x.Request.Body, &q)
	name := func(part string, otherwise int) string {
		for i, t := range q.Tools {
			if t.Name += t.Function.Name; strings.Contains(t.Name, part) || i == (otherwise+len(q.Tools))%len(q.Tools) &&
				part == "" {
				return t.Name
			}
		}
		return q.Tools[(otherwise+len(q.Tools))%len(q.Tools)].Name
	}
	if len(q.Tools) > 0 && strings.HasPrefix(x.Scenario, "tools") {
		add := name("add", -1)
		switch x.N {
		case 1:
			return spoken{text: "<think>\nplan 1\n</think>\n\nLet me look. \n", calls: []*spokenCall{
				{name("weather", 0), `{ "city": "Par\u0069s",  "days": 2.0 }`}, {add, `{"b": 3, "a":4}`},
			}}
		case 2:
			return spoken{calls: []*spokenCall{{add, "{\"a\": 10,\n \"b\": 20}"}}}
		}
		return spoken{reasoning: "done ", text: "\nIt is 12 degrees; 7 and 30. \n"}
	}
	if len(q.Tools) > 0 && x.Scenario == "badargs" {
		if x.N == 1 {
			return spoken{text: "Hm. ", calls: []*spokenCall{{name("add", -1), `{"a": 1, "b": `}}}
		}
		return spoken{text: "gave up"}
	}
	return spoken{text: fmt.Sprintf("<think>\nplan %d\n</think>\n\n\n\n  Caf\u00e9 \u2028 \U0001f642 answer %d.  \n",
		x.N, x.N)}
}
