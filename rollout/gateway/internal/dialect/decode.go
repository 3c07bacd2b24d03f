package dialect

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"vagen/env"
)

// unmarshal decodes JSON. The error names the field and what was found.
func unmarshal(raw []byte, field string, into any) error {
	err := json.Unmarshal(raw, into)
	if err == nil {
		return nil
	}
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		if kind.Field != "" && field != "" {
			field += "."
		}
		return bad(field+kind.Field, "%s is not allowed, must be %s", kind.Value, plainType(kind.Type.String()))
	}
	return bad(field, "not valid JSON: %v", err)
}

// plainType names a type as a client knows it.
func plainType(name string) string {
	switch {
	case name == "string" || name == "bool":
		return "a " + name
	case strings.HasPrefix(name, "[]"):
		return "a list"
	case strings.Contains(name, "int") || strings.Contains(name, "float"):
		return "a number"
	}
	return "an object"
}

// common has the fields that several protocols share.
type common struct {
	Model       string          `json:"model"`
	Stream      bool            `json:"stream"`
	Temperature *float64        `json:"temperature"`
	TopP        *float64        `json:"top_p"`
	TopK        *float64        `json:"top_k"`
	MaxTokens   json.RawMessage `json:"max_tokens"`
	MaxComplete json.RawMessage `json:"max_completion_tokens"`
	MaxOutput   json.RawMessage `json:"max_output_tokens"`
	Presence    *float64        `json:"presence_penalty"`
	Frequency   *float64        `json:"frequency_penalty"`
	Bias        json.RawMessage `json:"logit_bias"`
	Seed        json.RawMessage `json:"seed"`
	LogProbs    json.RawMessage `json:"logprobs"`
	Parallel    *bool           `json:"parallel_tool_calls"`
	N           *int            `json:"n"`
	ToolChoice  json.RawMessage `json:"tool_choice"`
	Format      json.RawMessage `json:"response_format"`
	Stop        json.RawMessage `json:"stop"`
}

// read copies the fields to a request.
func (c *common) read(r *Request) error {
	r.Model, r.Stream = c.Model, c.Stream
	if c.N != nil && *c.N != 1 {
		return bad("n", "%d is not allowed, must be 1: every answer is a turn of the episode", *c.N)
	}
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"temperature", c.Temperature != nil}, {"top_p", c.TopP != nil}, {"top_k", c.TopK != nil},
		{"max_tokens", given(c.MaxTokens) || given(c.MaxComplete) || given(c.MaxOutput)},
		{"presence_penalty", c.Presence != nil && *c.Presence != 0}, {"frequency_penalty", c.Frequency != nil &&
			*c.Frequency != 0},
		{"logit_bias", given(c.Bias) && string(c.Bias) != "{}"}, {"seed", given(c.Seed)},
		{"logprobs", given(c.LogProbs) && string(c.LogProbs) != "false"},
		{"parallel_tool_calls", c.Parallel != nil && !*c.Parallel},
	} {
		if f.set {
			r.Overridden = append(r.Overridden, f.name)
		}
	}
	if err := r.choose(c.ToolChoice); err != nil {
		return err
	}
	if err := r.format("response_format", c.Format); err != nil {
		return err
	}
	return r.stop("stop", c.Stop)
}

// given reports whether a field is set to something else than null.
func given(raw json.RawMessage) bool { return len(raw) > 0 && !bytes.Equal(raw, []byte("null")) }

// maxStops limits the stop texts of a request.
const maxStops = 16

func (r *Request) stop(field string, raw json.RawMessage) error {
	if !given(raw) {
		return nil
	}
	if one, ok := quoted(raw); ok {
		r.Stop = []string{one}
	} else if err := unmarshal(raw, field, &r.Stop); err != nil {
		return err
	}
	r.Stop = slices.DeleteFunc(r.Stop, func(s string) bool { return s == "" })
	if len(r.Stop) > maxStops {
		return bad(field, "%d texts, at most %d are allowed", len(r.Stop), maxStops)
	}
	return nil
}

// choose reads tool_choice, a name or an object with a type.
func (r *Request) choose(raw json.RawMessage) error {
	if !given(raw) {
		return nil
	}
	choice, ok := quoted(raw)
	if !ok {
		var object struct {
			Type string `json:"type"`
			One  bool   `json:"disable_parallel_tool_use"`
		}
		if err := unmarshal(raw, "tool_choice", &object); err != nil {
			return err
		}
		if choice = object.Type; object.One {
			r.Overridden = append(r.Overridden, "parallel_tool_calls")
		}
	}
	switch choice {
	case "auto":
	case "none":
		r.Calls = false
	case "required", "any", "tool", "function", "allowed_tools", "custom":
		r.Constrained = append(r.Constrained, "tool_choice")
	default:
		return bad("tool_choice", "%q is not allowed, must be auto, none, required or name a tool", choice)
	}
	return nil
}

// format reads the form of answers that a client demands.
func (r *Request) format(field string, raw json.RawMessage) error {
	if !given(raw) {
		return nil
	}
	var f struct {
		Type string `json:"type"`
	}
	if err := unmarshal(raw, field, &f); err != nil {
		return err
	}
	switch f.Type {
	case "", "text":
	case "json_object", "json_schema":
		r.Constrained = append(r.Constrained, field)
	default:
		return bad(field+".type", "%q is not allowed, must be text, json_object or json_schema", f.Type)
	}
	return nil
}

// tool is a definition in any of the protocols.
type tool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	InputSchema json.RawMessage `json:"input_schema"`
	Strict      bool            `json:"strict"`
	Function    *tool           `json:"function"`
	Format      struct {
		Type string `json:"type"`
	} `json:"format"` // of custom tools
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
	var b strings.Builder
	for i, t := range all {
		if t.Function != nil {
			t = *t.Function
			t.Type = "function"
		}
		if t.Type != "" && t.Type != "function" && t.Type != "custom" {
			r.Overridden = append(r.Overridden, "tools."+t.Type)
			continue
		}
		if t.Name == "" {
			return bad(fmt.Sprintf("tools[%d].name", i), "empty, must name the tool")
		}
		if t.Strict {
			r.Constrained = append(r.Constrained, "tools.strict")
		}
		if t.Format.Type == "grammar" {
			r.Constrained = append(r.Constrained, "tools.format")
		}
		type function struct {
			Name        string          `json:"name"`
			Description string          `json:"description,omitempty"`
			Parameters  json.RawMessage `json:"parameters,omitempty"`
		}
		f := function{t.Name, t.Description, t.Parameters}
		if given(t.InputSchema) {
			f.Parameters = t.InputSchema
		}
		b.WriteByte('\n')
		b.Write(marshal(struct {
			Type     string   `json:"type"`
			Function function `json:"function"`
		}{"function", f}))
	}
	r.Tools = strings.TrimPrefix(b.String(), "\n")
	r.Constrained = slices.Compact(r.Constrained)
	return nil
}

// part is a part of a content in any of the protocols.
type part struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Refusal   string          `json:"refusal"`
	ImageURL  json.RawMessage `json:"image_url"`
	Source    *source         `json:"source"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
}

type source struct {
	Type string `json:"type"`
	Data string `json:"data"`
	URL  string `json:"url"`
}

// quoted decodes a JSON string that encoding/json has found valid. ok is false for other values.
func quoted(raw json.RawMessage) (s string, ok bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	if inner := raw[1 : len(raw)-1]; bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner), true
	}
	return s, json.Unmarshal(raw, &s) == nil
}

// content adds a text, or a list of parts, to a message.
func (r *Request) content(m *Message, raw json.RawMessage, field string) error {
	if !given(raw) {
		return nil
	}
	if text, ok := quoted(raw); ok {
		m.Text = join(m.Text, env.WithoutMarks(text))
		return nil
	}
	var parts []part
	if err := unmarshal(raw, field, &parts); err != nil {
		if raw[0] != '[' {
			return bad(field, "must be a string or a list of parts")
		}
		return err
	}
	for i := range parts {
		if err := r.part(m, &parts[i], fmt.Sprintf("%s[%d]", field, i)); err != nil {
			return err
		}
	}
	return nil
}

func (r *Request) part(m *Message, p *part, field string) error {
	switch p.Type {
	case "text", "input_text", "output_text", "summary_text":
		m.Text = join(m.Text, env.WithoutMarks(p.Text))
	case "refusal":
		m.Text = join(m.Text, env.WithoutMarks(p.Refusal))
	case "thinking", "redacted_thinking", "reasoning":
	case "image_url", "input_image":
		url, ok := quoted(p.ImageURL)
		if !ok {
			var object struct {
				URL string `json:"url"`
			}
			if err := unmarshal(p.ImageURL, field+".image_url", &object); err != nil {
				return err
			}
			url = object.URL
		}
		return r.image(m, url, field+".image_url")
	case "image":
		switch s := p.Source; {
		case s == nil:
			return bad(field+".source", "missing, must be an image in base64")
		case s.Type == "base64":
			return m.file(r.original(s.Data), field+".source.data")
		default:
			return r.image(m, s.URL, field+".source")
		}
	default:
		return bad(field+".type", "%q is not allowed, must be a text or an image", short(p.Type))
	}
	return nil
}

// image adds an image that a URL contains. Others are not fetched.
func (r *Request) image(m *Message, url, field string) error {
	whole := r.original(url)
	head, data, ok := bytes.Cut(whole, []byte(","))
	if !ok || !bytes.HasPrefix(head, []byte("data:")) || !bytes.HasSuffix(head, []byte(";base64")) {
		return bad(field, "%q is not allowed, must be a URL that begins with data: and contains the image in base64",
			short(string(whole)))
	}
	return m.file(data, field)
}

func (m *Message) file(text []byte, field string) error {
	data := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Decode(data, text)
	if err != nil {
		return bad(field, "not base64: %v", err)
	}
	m.Text = join(m.Text, ImageMark)
	m.Images = append(m.Images, Image{Data: data[:n], Hash: sha256.Sum256(data[:n])})
	return nil
}

// short shortens a value for an error.
func short(s string) string {
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}
