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
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		embedded := strings.NewReplacer("sampling.", "", "choices.", "", "definition.", "")
		name := embedded.Replace(kind.Field)
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

// query is the body of a request in any of the protocols.
type query struct {
	sampling
	forms
	choices
	unknown
	Model   string          `json:"model"`
	Stream  bool            `json:"stream"`
	Tools   json.RawMessage `json:"tools"`
	Format  kind            `json:"response_format"`
	Stop    json.RawMessage `json:"stop"`
	Options struct {
		Usage bool `json:"include_usage"`
	} `json:"stream_options"`
	Messages []part `json:"messages"`

	// Of Responses.
	Instructions json.RawMessage `json:"instructions"`
	Input        json.RawMessage `json:"input"`
	Previous     string          `json:"previous_response_id"`
	Include      []string        `json:"include"`
	Text         output          `json:"text"`

	// Of Anthropic's messages.
	System   json.RawMessage `json:"system"`
	Stops    json.RawMessage `json:"stop_sequences"`
	Thinking kind            `json:"thinking"`
	Output   output          `json:"output_config"`
}

// output says how answers shall be.
type output struct {
	Format kind `json:"format"`
	Effort any  `json:"effort"`
}

// kind is a name, or an object with a type or a URL: clients send either for the same.
type kind struct {
	Type string `json:"type"` // or the name
	URL  string `json:"url"`
	Data string `json:"data"`                      // of an image
	One  bool   `json:"disable_parallel_tool_use"` // of tool_choice

	Effort any `json:"effort"`        // of reasoning
	Budget any `json:"budget_tokens"` // of thinking
}

// UnmarshalJSON implements json.Unmarshaler. What is neither is a name that is not allowed.
func (k *kind) UnmarshalJSON(raw []byte) error {
	type object kind
	if json.Unmarshal(raw, (*object)(k)) != nil {
		k.Type = textOf(raw)
	}
	return nil
}

// ModelName is the only model. Answers name that of the request, in every event of a stream.
const ModelName = "policy"

// maxModel limits its length in bytes.
const maxModel = 1 << 12

// settings copies to a request what is not about its messages.
func (q *query) settings(r *Request) error {
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
	case q.Conversation != nil:
		return Bad("conversation", "not allowed, conversations are not stored: send all items, or previous_response_id")
	case q.Prompt != nil:
		return Bad("prompt", "not allowed, prompts are not stored: send instructions and input")
	case q.Functions != nil:
		return Bad("functions", "not allowed, must be tools")
	}
	q.LogProbs = q.LogProbs || slices.Contains(q.Include, "message.output_text.logprobs")
	q.Effort = cmp.Or(q.Effort, q.Reasoning.Effort, q.Output.Effort, q.Thinking.Budget)
	r.Overridden, r.Constrained = asked(q.sampling), asked(q.forms)
	if q.Parallel != nil && !*q.Parallel || q.ToolChoice.One {
		r.Overridden = append(r.Overridden, "parallel_tool_calls")
	}
	bad := cmp.Or(r.choose(q.ToolChoice.Type), r.format("response_format", q.Format.Type),
		r.format("text.format", q.Text.Format.Type), r.format("output_config.format", q.Output.Format.Type),
		r.stop("stop", q.Stop), r.stop("stop_sequences", q.Stops), r.tools(q.Tools))
	slices.Sort(r.Overridden)
	r.Overridden = slices.Compact(r.Overridden) // each once, also if it has several names
	return bad
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

// Limits of the stop texts of a request, all of which are looked for after each token.
const (
	maxStops     = 16
	maxStopBytes = 1 << 12
)

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
	if bytes := len(strings.Join(r.Stop, "")); len(r.Stop) > maxStops || bytes > maxStopBytes {
		return Bad(field, "%d texts of %d bytes, at most %d of %d are allowed", len(r.Stop), bytes, maxStops,
			maxStopBytes)
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

// definition is what the policy is shown of a tool.
type definition struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

// tool is a definition in any of the protocols.
type tool struct {
	definition
	Type        string          `json:"type"`
	InputSchema json.RawMessage `json:"input_schema"`
	Strict      bool            `json:"strict"`
	Deferred    bool            `json:"defer_loading"`
	Function    *tool           `json:"function"`
}

// tools reads the definitions of tools. Tools that a service would run itself are counted, since
// there are none here. A deferred one is shown where a result refers to it, unless the service itself would search.
func (r *Request) tools(raw json.RawMessage) error {
	var all []tool
	if !given(raw) {
		return nil
	}
	if err := unmarshal(raw, "tools", &all); err != nil {
		return err
	}
	var shown []string
	r.deferred = map[string]string{}
	searched := slices.ContainsFunc(all, func(t tool) bool { return strings.HasPrefix(t.Type, "tool_search") })
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
			r.Overridden = append(r.Overridden, "tools")
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
		line := fmt.Sprintf(`{"type":"function","function":%s}`, marshal(t.definition))
		if t.Deferred && !searched {
			r.deferred[t.Name] = env.WithoutMarks(line)
		} else {
			shown = append(shown, line)
		}
	}
	r.Tools = strings.Join(shown, "\n")
	r.Constrained = slices.Compact(r.Constrained)
	return nil
}

// part is a message, an item of Responses, or a part of a content, in any of the protocols.
type part struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	Calls     []Call          `json:"tool_calls"`
	Text      string          `json:"text"`
	Refusal   string          `json:"refusal"`
	ImageURL  kind            `json:"image_url"`
	Source    kind            `json:"source"`
	ID        json.RawMessage `json:"id"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Tool      string          `json:"tool_name"`
	Input     json.RawMessage `json:"input"`
	Arguments json.RawMessage `json:"arguments"`
	Output    json.RawMessage `json:"output"`
}

// content adds a text, or a list of parts, to a message.
func (r *Request) content(m *Message, raw json.RawMessage, field string) error {
	if text, ok := jsontext.Text(raw); ok || !given(raw) {
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
	m.Text = Join(texts)
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
	case "tool_reference":
		text = cmp.Or(r.deferred[p.Tool], env.WithoutMarks(p.Tool))
		delete(r.deferred, p.Tool) // once, so that many references take no memory
	case "tool_use":
		m.Calls = append(m.Calls, Call{textOf(p.ID), p.Name, string(p.Input)})
	case "tool_result":
		if m.Role == Tool { // each level would be read again
			return "", Bad(field+".type", "%q is not allowed in a result, must be a text or an image", p.Type)
		}
		err = r.message(Tool, p.Content, field, ".content")
	case "image_url", "input_image":
		text, err = env.ImageMark, r.image(m, cmp.Or(p.ImageURL.URL, p.ImageURL.Type), field+".image_url")
	case "image":
		if text = env.ImageMark; p.Source.Type == "base64" {
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
