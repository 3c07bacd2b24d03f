package chat

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"

	"vagen/internal/jsontext"
	"vagen/policy"
)

// openAI is the form of chat completions.
type openAI struct{}

func (openAI) address() string    { return "https://api.openai.com/v1" }
func (openAI) path(string) string { return "/chat/completions" }

func (p openAI) dialect(o *Options) dialect {
	d := dialect{
		temperature: "temperature", topP: "top_p", topK: "top_k", minP: "min_p", seed: "seed",
		limit: "max_tokens", stop: "stop", logProbs: "logprobs",
		reserved: []string{"model", "messages", "stream", "n"},
	}
	if o.host() == "api.openai.com" {
		d.topK, d.minP, d.limit = "", "", "max_completion_tokens"
		d.maxTemperature, d.stops = 2, 4
	}
	if o.MaxTokensField != "" {
		d.limit = o.MaxTokensField
	}
	return d
}

func (openAI) authorize(h http.Header, key string) { h.Set("Authorization", "Bearer "+key) }

type openAIImage struct {
	URL    string `json:"url"`
	Detail string `json:"detail,omitempty"`
}

type openAIPart struct {
	Type  string       `json:"type"`
	Text  string       `json:"text,omitempty"`
	Image *openAIImage `json:"image_url,omitempty"`
}

type openAIMessage struct {
	Role    policy.Role `json:"role"`
	Content any         `json:"content"`
}

func (openAI) render(e entry, pic *Pictures) json.RawMessage {
	if len(e.parts) == 1 && e.parts[0].image == nil { // the form that text-only services accept, too
		return mustEncode(openAIMessage{e.role, e.parts[0].text})
	}
	parts := make([]openAIPart, len(e.parts))
	for i, p := range e.parts {
		if p.image == nil {
			parts[i] = openAIPart{Type: "text", Text: p.text}
			continue
		}
		parts[i] = openAIPart{Type: "image_url", Image: &openAIImage{URL: "data:" + p.image.mime + ";base64," + p.image.data,
			Detail: pic.Detail}}
	}
	return mustEncode(openAIMessage{e.role, parts})
}

func (openAI) body(q *request) ([]byte, error) {
	messages := q.messages
	if len(q.system) > 0 {
		messages = append([]json.RawMessage{q.system}, messages...)
	}
	return q.assemble("messages", messages, map[string]any{"model": q.model})
}

// openAIAnswer includes fields that other services with this API add.
type openAIAnswer struct {
	Error   json.RawMessage `json:"error"`
	Choices []struct {
		Error        json.RawMessage `json:"error"`
		FinishReason *string         `json:"finish_reason"`
		Message      *struct {
			Content          textParts `json:"content"`
			ReasoningContent anyText   `json:"reasoning_content"` // of DeepSeek, SGLang and older vLLM
			Reasoning        anyText   `json:"reasoning"`         // of OpenRouter and newer vLLM
			Refusal          string    `json:"refusal"`
		} `json:"message"`
		LogProbs json.RawMessage `json:"logprobs"`
	} `json:"choices"`
	Usage json.RawMessage `json:"usage"`
}

// textParts is a string, null, or a list of parts, of which some are text and some reasoning.
type textParts struct{ text, reasoning string }

func (p *textParts) UnmarshalJSON(data []byte) error {
	if len(data) == 0 || data[0] != '[' {
		return json.Unmarshal(data, &p.text)
	}
	var parts []struct {
		Type     string  `json:"type"`
		Text     string  `json:"text"`
		Thinking anyText `json:"thinking"` // of Mistral
	}
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	for _, part := range parts {
		switch part.Type {
		case "text", "output_text":
			p.text += part.Text
		case "thinking", "reasoning":
			p.reasoning += part.Text + string(part.Thinking)
		}
	}
	return nil
}

// anyText is a string, or the text of a list of parts. Values of other forms, which some services
// have, are no reason to lose the answer: they are "".
type anyText string

func (p *anyText) UnmarshalJSON(data []byte) error {
	var parts textParts
	if json.Unmarshal(data, &parts) == nil {
		*p = anyText(parts.text)
	}
	return nil
}

func (openAI) parse(data []byte) (*answer, error) {
	var in openAIAnswer
	if err := jsontext.Unmarshal(data, &in); err != nil {
		return nil, err
	}
	if isSet(in.Error) {
		return nil, explain(data)
	}
	if len(in.Choices) == 0 {
		return nil, fmt.Errorf("it has no choices")
	}
	c := in.Choices[0]
	if isSet(c.Error) {
		return nil, explain(mustEncode(map[string]json.RawMessage{"error": c.Error}))
	}
	if c.Message == nil {
		return nil, fmt.Errorf("its choice has no message")
	}
	a := &answer{text: c.Message.Content.text}
	a.reasoning = cmp.Or(string(c.Message.ReasoningContent), string(c.Message.Reasoning), c.Message.Content.reasoning)
	reason := ""
	if c.FinishReason != nil {
		reason = *c.FinishReason
	}
	switch reason {
	case "", "stop", "eos", "eos_token", "stop_sequence", "tool_calls", "function_call":
		a.stop = policy.StopEnd
	case "length":
		a.stop = policy.StopLength
	case "content_filter":
		a.stop, a.refusal = policy.StopFilter, "content filter"
	case "error", "abort":
		return nil, &fault{code: reason, message: "the service stopped in the middle of the answer"}
	default:
		return nil, fmt.Errorf("its finish_reason is %q", reason)
	}
	if c.Message.Refusal != "" {
		a.stop, a.refusal = policy.StopFilter, "refusal"
		if a.text == "" {
			a.text = c.Message.Refusal
		}
	}
	a.logProbs = openAILogProbs(c.LogProbs)
	a.used, a.counted = openAIUsage(in.Usage)
	return a, nil
}

// openAILogProbs reads the log-probs in the form of OpenAI or Together, nil for others.
func openAILogProbs(raw json.RawMessage) []float32 {
	var in struct {
		Content []struct {
			LogProb *float64 `json:"logprob"`
		} `json:"content"`
		TokenLogProbs []*float64 `json:"token_logprobs"`
	}
	if json.Unmarshal(raw, &in) != nil {
		return nil
	}
	values := in.TokenLogProbs
	if len(in.Content) > 0 {
		values = make([]*float64, len(in.Content))
		for i, c := range in.Content {
			values[i] = c.LogProb
		}
	}
	return logProbs(values)
}

func openAIUsage(raw json.RawMessage) (tokens, bool) {
	var in struct {
		Prompt     *count `json:"prompt_tokens"`
		Completion count  `json:"completion_tokens"`
		Read       struct {
			Cached count `json:"cached_tokens"`
			Write  count `json:"cache_write_tokens"`
			Image  count `json:"image_tokens"`
		} `json:"prompt_tokens_details"`
		Written struct {
			Reasoning count `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	}
	if json.Unmarshal(raw, &in) != nil || in.Prompt == nil {
		return tokens{}, false
	}
	return tokens{
		prompt: int64(*in.Prompt), completion: int64(in.Completion), cacheRead: int64(in.Read.Cached),
		cacheWrite: int64(in.Read.Write), image: int64(in.Read.Image), reasoning: int64(in.Written.Reasoning),
	}, true
}
