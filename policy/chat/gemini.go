package chat

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"vagen/internal/jsontext"
	"vagen/policy"
)

// gemini is the form of generateContent.
type gemini struct{}

func (gemini) address() string { return "https://generativelanguage.googleapis.com/v1beta" }

// path allows the names "gemini-…", "models/gemini-…" and "tunedModels/…".
func (gemini) path(model string) string {
	if !strings.Contains(model, "/") {
		model = "models/" + model
	}
	return "/" + model + ":generateContent"
}

func (gemini) dialect(*Options) dialect {
	return dialect{
		temperature: "temperature", topP: "topP", topK: "topK", seed: "seed", limit: "maxOutputTokens",
		stop: "stopSequences", logProbs: "responseLogprobs", maxTemperature: 2, stops: 5, object: "generationConfig",
		reserved: []string{"contents", "systemInstruction", "system_instruction", "generation_config"},
	}
}

func (gemini) authorize(h http.Header, key string) { h.Set("X-Goog-Api-Key", key) }

type geminiData struct {
	Mime string `json:"mimeType"`
	Data string `json:"data"`
}

type geminiPart struct {
	Text string      `json:"text,omitempty"`
	Data *geminiData `json:"inlineData,omitempty"`
}

type geminiContent struct {
	Role  string       `json:"role,omitempty"`
	Parts []geminiPart `json:"parts"`
}

func (gemini) render(e entry, _ *Pictures) json.RawMessage {
	c := geminiContent{Parts: make([]geminiPart, len(e.parts))}
	switch e.role {
	case policy.User:
		c.Role = "user"
	case policy.Assistant:
		c.Role = "model"
	}
	for i, p := range e.parts {
		if p.image == nil {
			c.Parts[i].Text = p.text
		} else {
			c.Parts[i].Data = &geminiData{p.image.mime, p.image.data}
		}
	}
	return mustEncode(c)
}

func (gemini) body(q *request) ([]byte, error) {
	fields := map[string]any{}
	if len(q.system) > 0 {
		fields["systemInstruction"] = q.system
	}
	return q.assemble("contents", q.messages, fields)
}

type geminiAnswer struct {
	Error      json.RawMessage `json:"error"`
	Candidates []struct {
		Content struct {
			Parts []struct {
				Text    string `json:"text"`
				Thought bool   `json:"thought"`
			} `json:"parts"`
		} `json:"content"`
		FinishReason string `json:"finishReason"`
		LogProbs     struct {
			Chosen []struct {
				LogProb *float64 `json:"logProbability"`
			} `json:"chosenCandidates"`
		} `json:"logprobsResult"`
	} `json:"candidates"`
	Feedback struct {
		BlockReason string `json:"blockReason"`
	} `json:"promptFeedback"`
	Usage json.RawMessage `json:"usageMetadata"`
}

func (gemini) parse(data []byte) (*answer, error) {
	var in geminiAnswer
	if err := jsontext.Unmarshal(data, &in); err != nil {
		return nil, err
	}
	if isSet(in.Error) {
		return nil, explain(data)
	}
	a := &answer{}
	a.used, a.counted = geminiUsage(in.Usage)
	if len(in.Candidates) == 0 {
		if in.Feedback.BlockReason == "" {
			return nil, fmt.Errorf("it has no candidates")
		}
		a.stop, a.refusal = policy.StopFilter, "prompt: "+in.Feedback.BlockReason
		return a, nil
	}
	c := in.Candidates[0]
	for _, part := range c.Content.Parts {
		if part.Thought {
			a.reasoning += part.Text
		} else {
			a.text += part.Text
		}
	}
	switch c.FinishReason {
	case "STOP":
		a.stop = policy.StopEnd
	case "MAX_TOKENS":
		a.stop = policy.StopLength
	case "SAFETY", "RECITATION", "LANGUAGE", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII",
		"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "IMAGE_OTHER":
		a.stop, a.refusal = policy.StopFilter, c.FinishReason
	default:
		return nil, fmt.Errorf("its finishReason is %q", c.FinishReason)
	}
	values := make([]*float64, len(c.LogProbs.Chosen))
	for i, chosen := range c.LogProbs.Chosen {
		values[i] = chosen.LogProb
	}
	a.logProbs = logProbs(values)
	return a, nil
}

func geminiUsage(raw json.RawMessage) (tokens, bool) {
	var in struct {
		Prompt   *count `json:"promptTokenCount"`
		Answer   count  `json:"candidatesTokenCount"`
		Thoughts count  `json:"thoughtsTokenCount"` // not part of the answer's
		Cached   count  `json:"cachedContentTokenCount"`
		Details  []struct {
			Modality string `json:"modality"`
			Tokens   count  `json:"tokenCount"`
		} `json:"promptTokensDetails"`
	}
	if json.Unmarshal(raw, &in) != nil || in.Prompt == nil {
		return tokens{}, false
	}
	t := tokens{
		prompt: int64(*in.Prompt), cacheRead: int64(in.Cached), completion: int64(in.Answer) + int64(in.Thoughts),
		reasoning: int64(in.Thoughts),
	}
	for _, d := range in.Details {
		if d.Modality == "IMAGE" {
			t.image += int64(d.Tokens)
		}
	}
	return t, true
}
