package chat

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"vagen/internal/jsontext"
	"vagen/policy"
)

// anthropic is the form of the Messages API.
type anthropic struct{}

const anthropicVersion = "2023-06-01"

func (anthropic) address() string    { return "https://api.anthropic.com/v1" }
func (anthropic) path(string) string { return "/messages" }

func (anthropic) dialect(*Options) dialect {
	return dialect{
		temperature: "temperature", topP: "top_p", topK: "top_k", limit: "max_tokens", stop: "stop_sequences",
		maxTemperature: 1, reserved: []string{"model", "messages", "system", "stream"},
	}
}

func (anthropic) authorize(h http.Header, key string) { h.Set("X-Api-Key", key) }

type anthropicSource struct {
	Type  string `json:"type"`
	Media string `json:"media_type"`
	Data  string `json:"data"`
}

type anthropicBlock struct {
	Type   string           `json:"type"`
	Text   string           `json:"text,omitempty"`
	Source *anthropicSource `json:"source,omitempty"`
}

type anthropicMessage struct {
	Role    policy.Role      `json:"role"`
	Content []anthropicBlock `json:"content"`
}

// render leaves out blank text, which the API refuses. The system prompt is a
// list of blocks.
func (anthropic) render(e entry, _ *Pictures) json.RawMessage {
	blocks := make([]anthropicBlock, 0, len(e.parts))
	for _, p := range e.parts {
		switch {
		case p.image != nil:
			blocks = append(blocks, anthropicBlock{Type: "image",
				Source: &anthropicSource{"base64", p.image.mime, p.image.data}})
		case strings.TrimSpace(p.text) != "" || len(e.parts) == 1:
			blocks = append(blocks, anthropicBlock{Type: "text", Text: p.text})
		}
	}
	if e.role == policy.System {
		return mustEncode(blocks)
	}
	return mustEncode(anthropicMessage{e.role, blocks})
}

func (anthropic) body(q *request) ([]byte, error) {
	fields := map[string]any{"model": q.model}
	if len(q.system) > 0 {
		fields["system"] = q.system
	}
	return q.assemble("messages", q.messages, fields)
}

func (anthropic) parse(data []byte) (*answer, error) {
	var in struct {
		Error   json.RawMessage `json:"error"`
		Content []struct {
			Type     string `json:"type"`
			Text     string `json:"text"`
			Thinking string `json:"thinking"`
		} `json:"content"`
		StopReason *string         `json:"stop_reason"`
		Usage      json.RawMessage `json:"usage"`
	}
	if err := jsontext.Unmarshal(data, &in); err != nil {
		return nil, err
	}
	switch {
	case isSet(in.Error):
		return nil, explain(data)
	case in.Content == nil:
		return nil, fmt.Errorf("it has no content")
	case in.StopReason == nil:
		return nil, fmt.Errorf("it has no stop_reason")
	}
	a := &answer{}
	for _, block := range in.Content {
		switch block.Type {
		case "text":
			a.text += block.Text
		case "thinking":
			a.reasoning += block.Thinking
		}
	}
	switch *in.StopReason {
	case "end_turn", "stop_sequence", "tool_use", "pause_turn":
		a.stop = policy.StopEnd
	case "max_tokens", "model_context_window_exceeded":
		a.stop = policy.StopLength
	case "refusal":
		a.stop, a.refusal = policy.StopFilter, "refusal"
	default:
		return nil, fmt.Errorf("its stop_reason is %q", *in.StopReason)
	}
	a.used, a.counted = anthropicUsage(in.Usage)
	return a, nil
}

// anthropicUsage adds the tokens read from and written to the cache to the input tokens,
// which do not include them.
func anthropicUsage(raw json.RawMessage) (tokens, bool) {
	var in struct {
		Input  *count `json:"input_tokens"`
		Output count  `json:"output_tokens"`
		Read   count  `json:"cache_read_input_tokens"`
		Write  count  `json:"cache_creation_input_tokens"`
	}
	if json.Unmarshal(raw, &in) != nil || in.Input == nil {
		return tokens{}, false
	}
	return tokens{
		prompt: int64(*in.Input) + int64(in.Read) + int64(in.Write), cacheRead: int64(in.Read), cacheWrite: int64(in.Write),
		completion: int64(in.Output),
	}, true
}
