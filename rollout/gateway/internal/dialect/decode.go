package dialect

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"vagen/env"
	"vagen/internal/jsontext"
	"vagen/internal/transport"
)

// unmarshal decodes JSON.
func unmarshal(raw []byte, field string, into any) error {
	if len(raw) == 0 && field != "" {
		return Bad(field, "missing")
	}
	return Undecoded(json.Unmarshal(raw, into), field)
}

// Undecoded is an error of encoding/json about a field, or the whole body if that is "". It names the field and what
// was found.
func Undecoded(err error, field string) error {
	if err == nil {
		return nil
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return Bad(field, "the field %s is unknown", name)
	}
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		name := strings.TrimPrefix(kind.Field, "sampling.") // which is embedded
		if name != "" && field != "" {
			field += "."
		}
		return Bad(field+name, "%s is not allowed, must be %s", kind.Value, plainType(kind.Type.String()))
	}
	return Bad(field, "not valid JSON: %v", err)
}

// plainType names a type as a client knows it.
func plainType(name string) string {
	switch {
	case name == "string" || name == "bool":
		return "a " + name
	case strings.HasPrefix(name, "[]"):
		return "a list"
	case strings.HasPrefix(name, "int"):
		return "an integer"
	case strings.HasPrefix(name, "float"):
		return "a number"
	}
	return "an object"
}

// sampling has the fields of a query that are only counted, and some that are refused.
type sampling struct {
	Temperature *float64        `json:"temperature"`
	TopP        *float64        `json:"top_p"`
	TopK        *float64        `json:"top_k"`
	MaxTokens   json.RawMessage `json:"max_tokens"`
	MaxComplete json.RawMessage `json:"max_completion_tokens"`
	MaxOutput   json.RawMessage `json:"max_output_tokens"`
	Presence    float64         `json:"presence_penalty"`
	Frequency   float64         `json:"frequency_penalty"`
	Bias        json.RawMessage `json:"logit_bias"`
	Seed        json.RawMessage `json:"seed"`
	LogProbs    json.RawMessage `json:"logprobs"`
	Parallel    *bool           `json:"parallel_tool_calls"`
	N           *float64        `json:"n"`
	Effort      json.RawMessage `json:"reasoning_effort"`
	Reasoning   kind            `json:"reasoning"`
	Template    json.RawMessage `json:"chat_template_kwargs"`
	Functions   json.RawMessage `json:"functions"` // which tools have replaced
}

// query is the body of a request in any of the protocols.
type query struct {
	sampling
	Model      string          `json:"model"`
	Stream     bool            `json:"stream"`
	ToolChoice kind            `json:"tool_choice"`
	Tools      json.RawMessage `json:"tools"`
	Format     kind            `json:"response_format"`
	Stop       json.RawMessage `json:"stop"`
	Options    struct {
		Usage bool `json:"include_usage"`
	} `json:"stream_options"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
		Calls   []ToolCall      `json:"tool_calls"`
	} `json:"messages"`

	// Of Responses.
	Instructions json.RawMessage `json:"instructions"`
	Input        json.RawMessage `json:"input"`
	Previous     string          `json:"previous_response_id"`
	Conversation json.RawMessage `json:"conversation"`
	Prompt       json.RawMessage `json:"prompt"`
	Include      []string        `json:"include"`
	Text         struct {
		Format kind `json:"format"`
	} `json:"text"`

	// Of Anthropic's messages.
	System   json.RawMessage `json:"system"`
	Stops    json.RawMessage `json:"stop_sequences"`
	Thinking kind            `json:"thinking"`
	Output   struct {
		Format kind            `json:"format"`
		Effort json.RawMessage `json:"effort"`
	} `json:"output_config"`
}

// kind is a name, or an object with a type or a URL: clients send either for the same.
type kind struct {
	Type string `json:"type"` // or the name
	URL  string `json:"url"`
	One  bool   `json:"disable_parallel_tool_use"` // of tool_choice

	Effort json.RawMessage `json:"effort"` // of reasoning
}

// UnmarshalJSON implements json.Unmarshaler. What is neither is a name that is not allowed.
func (k *kind) UnmarshalJSON(raw []byte) error {
	type object kind
	if json.Unmarshal(raw, (*object)(k)) != nil {
		k.Type = text(raw)
	}
	return nil
}

// ModelName is the only model. Answers name that of the request, in every event of a stream.
const ModelName = "policy"

// maxModel limits its length in bytes.
const maxModel = 1 << 12

// settings copies to a request what is not about its messages.
func (q *query) settings(r *Request) error {
	r.Previous = q.Previous
	r.Form = Form{
		Model: cmp.Or(q.Model, ModelName), Stream: q.Stream, Usage: q.Options.Usage,
		Thinking:  q.Thinking.Type == "enabled" || q.Thinking.Type == "adaptive",
		Encrypted: slices.Contains(q.Include, "reasoning.encrypted_content"),
	}
	switch {
	case len(q.Model) > maxModel:
		return Bad("model", "a name of %d bytes, at most %d are allowed", len(q.Model), maxModel)
	case q.N != nil && *q.N != 1:
		return Bad("n", "%v is not allowed, must be 1: every answer is a turn of the episode", *q.N)
	case given(q.Conversation):
		return Bad("conversation", "not allowed, conversations are not stored: send all items, or previous_response_id")
	case given(q.Prompt):
		return Bad("prompt", "not allowed, prompts are not stored: send instructions and input")
	case given(q.Functions):
		return Bad("functions", "not allowed, must be tools")
	}
	for name, set := range map[string]bool{
		"temperature": q.Temperature != nil, "top_p": q.TopP != nil, "top_k": q.TopK != nil,
		"max_tokens":       given(q.MaxTokens) || given(q.MaxComplete) || given(q.MaxOutput),
		"presence_penalty": q.Presence != 0, "frequency_penalty": q.Frequency != 0,
		"logit_bias": given(q.Bias) && string(q.Bias) != "{}", "seed": given(q.Seed),
		"logprobs": given(q.LogProbs) && string(q.LogProbs) != "false" ||
			slices.Contains(q.Include, "message.output_text.logprobs"),
		"parallel_tool_calls":  q.Parallel != nil && !*q.Parallel || q.ToolChoice.One,
		"reasoning_effort":     given(q.Effort) || given(q.Reasoning.Effort) || given(q.Output.Effort),
		"chat_template_kwargs": given(q.Template) && string(q.Template) != "{}",
	} {
		if set {
			r.Overridden = append(r.Overridden, name)
		}
	}
	slices.Sort(r.Overridden) // maps have no order
	return cmp.Or(r.choose(q.ToolChoice.Type), r.format("response_format", q.Format.Type),
		r.format("text.format", q.Text.Format.Type), r.format("output_config.format", q.Output.Format.Type),
		r.stop("stop", q.Stop), r.stop("stop_sequences", q.Stops), r.tools(q.Tools))
}

// format reads a field with the format of answers.
func (r *Request) format(field, kind string) error {
	switch kind {
	case "", "text":
	case "json_object", "json_schema":
		r.Constrained = append(r.Constrained, field)
	default:
		return Bad(field+".type", "%q is not allowed, must be text, json_object or json_schema", short(kind))
	}
	return nil
}

// given reports whether a field is set to something else than null.
func given(raw json.RawMessage) bool { return len(raw) > 0 && !bytes.Equal(raw, []byte("null")) }

// maxStops limits the stop texts of a request.
const maxStops = 16

func (r *Request) stop(field string, raw json.RawMessage) error {
	if !given(raw) {
		return nil
	}
	if one, ok := jsontext.Text(raw); ok {
		r.Stop = []string{one}
	} else if err := unmarshal(raw, field, &r.Stop); err != nil {
		return err
	}
	r.Stop = slices.DeleteFunc(r.Stop, func(s string) bool { return s == "" })
	if len(r.Stop) > maxStops {
		return Bad(field, "%d texts, at most %d are allowed", len(r.Stop), maxStops)
	}
	return nil
}

// choose reads tool_choice.
func (r *Request) choose(choice string) error {
	switch choice {
	case "", "auto":
	case "none":
		r.Calls = false
	case "required", "any", "tool", "function", "allowed_tools", "custom":
		r.Constrained = append(r.Constrained, "tool_choice")
	default:
		return Bad("tool_choice", "%q is not allowed, must be auto, none, required or name a tool", short(choice))
	}
	return nil
}

// tool is a definition in any of the protocols. The policy is shown name, description and parameters.
type tool struct {
	Type        string          `json:"type,omitempty"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
	InputSchema json.RawMessage `json:"input_schema,omitempty"`
	Strict      bool            `json:"strict,omitempty"`
	Function    *tool           `json:"function,omitempty"`
}

// tools reads the definitions of tools. Tools that a service would run itself are counted, since
// there are none here.
func (r *Request) tools(raw json.RawMessage) error {
	var all []tool
	if !given(raw) {
		return nil
	}
	if err := unmarshal(raw, "tools", &all); err != nil {
		return err
	}
	var shown []string
	for i, t := range all {
		switch {
		case t.Function != nil:
			t = *t.Function
			t.Type = "function"
		case t.Type == "custom" && given(t.InputSchema): // a function of Anthropic's
			t.Type = "function"
		case t.Type == "custom": // its calls are texts
			r.Constrained = append(r.Constrained, "tools.custom")
		}
		if t.Type != "" && t.Type != "function" {
			r.Overridden = append(r.Overridden, "tools."+t.Type)
			continue
		}
		if t.Name == "" {
			return Bad(fmt.Sprintf("tools[%d].name", i), "empty, must name the tool")
		}
		if t.Strict {
			r.Constrained = append(r.Constrained, "tools.strict")
		}
		if given(t.InputSchema) {
			t.Parameters = t.InputSchema
		}
		t.Type, t.InputSchema, t.Strict, t.Function = "", nil, false, nil
		shown = append(shown, fmt.Sprintf(`{"type":"function","function":%s}`, marshal(t)))
	}
	r.Tools = strings.Join(shown, "\n")
	r.Constrained = slices.Compact(r.Constrained)
	return nil
}

// part is a part of a content in any of the protocols.
type part struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Refusal  string          `json:"refusal"`
	ImageURL kind            `json:"image_url"`
	Source   source          `json:"source"`
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Input    json.RawMessage `json:"input"`
	Content  json.RawMessage `json:"content"`
}

type source struct {
	Type string `json:"type"`
	Data string `json:"data"`
	URL  string `json:"url"`
}

// content adds a text, or a list of parts, to a message.
func (r *Request) content(m *Message, raw json.RawMessage, field string) error {
	if !given(raw) {
		return nil
	}
	if text, ok := jsontext.Text(raw); ok {
		m.Text = env.WithoutMarks(text)
		return nil
	}
	var parts []part
	if err := unmarshal(raw, field, &parts); err != nil {
		if raw[0] != '[' {
			return Bad(field, "must be a string or a list of parts")
		}
		return err
	}
	var texts []string
	for i := range parts {
		text, err := r.part(m, &parts[i], fmt.Sprintf("%s[%d]", field, i))
		if err != nil {
			return err
		}
		texts = append(texts, text)
	}
	m.Text = join(texts)
	return nil
}

// part adds a part to a message and returns its text.
func (r *Request) part(m *Message, p *part, field string) (text string, err error) {
	switch p.Type {
	case "text", "input_text", "output_text", "summary_text":
		text = env.WithoutMarks(p.Text)
	case "refusal":
		text = env.WithoutMarks(p.Refusal)
	case "thinking", "redacted_thinking", "reasoning":
	case "tool_use":
		m.Calls = append(m.Calls, Call{ID: p.ID, Name: p.Name, Arguments: string(p.Input)})
	case "tool_result":
		if m.Role == Tool { // each level would be read again
			return "", Bad(field+".type", "%q is not allowed in a result, must be a text or an image", p.Type)
		}
		err = r.message(Tool, p.Content, field, ".content")
	case "image_url", "input_image":
		text, err = ImageMark, r.image(m, cmp.Or(p.ImageURL.URL, p.ImageURL.Type), field+".image_url")
	case "image":
		if text = ImageMark; p.Source.Type == "base64" {
			err = m.file(r.original(p.Source.Data), field+".source.data")
		} else {
			err = r.image(m, p.Source.URL, field+".source")
		}
	default:
		err = Bad(field+".type", "%q is not allowed, must be a text or an image", short(p.Type))
	}
	return text, err
}

// image adds an image that a URL contains. Others are not fetched.
func (r *Request) image(m *Message, url, field string) error {
	whole := r.original(url)
	head, data, ok := bytes.Cut(whole, []byte(","))
	if !ok || !bytes.HasPrefix(head, []byte("data:")) || !bytes.HasSuffix(head, []byte(";base64")) {
		return Bad(field, "%q is not allowed, must be a URL that begins with data: and contains the image in base64",
			short(string(whole)))
	}
	return m.file(data, field)
}

// file adds an image in base64.
func (m *Message) file(text []byte, field string) error {
	data := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Decode(data, text)
	if err != nil {
		return Bad(field, "not base64: %v", err)
	}
	m.Images = append(m.Images, Image{data[:n], sha256.Sum256(data[:n]), field})
	return nil
}

// short shortens a value for an error.
func short(s string) string { return transport.Clip(s, 60) }
