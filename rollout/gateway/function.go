package gateway

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"vagen/internal/jsontext"
)

// Tags of a call as the chat template of Qwen3.5 shows it. Models that were trained with it may write calls in this
// form, although they are shown the other one:
//
//	<function=NAME>
//	<parameter=KEY>
//	VALUE
//	</parameter>
//	</function>
const (
	functionOpen, functionClose   = "<function=", "</function>"
	parameterOpen, parameterClose = "<parameter=", "</parameter>"
)

// cutTag returns the name in the first tag of a text, and what follows the tag. White space alone may precede it.
func cutTag(text, open string) (name, after string, ok bool) {
	text, ok = strings.CutPrefix(strings.TrimSpace(text), open)
	name, after, closed := strings.Cut(text, ">")
	return strings.TrimSpace(name), after, ok && closed
}

// readParameters returns the arguments of a call in JSON. A value is a text, unless it is JSON that its types allow.
func readParameters(text string, types map[string][]string) string {
	var fields []string
	for {
		key, after, ok := cutTag(text, parameterOpen)
		if !ok {
			return "{" + strings.Join(fields, ", ") + "}"
		}
		value, rest, closed := strings.Cut(after, parameterClose)
		if !closed {
			value = strings.TrimSuffix(strings.TrimSpace(value), functionClose)
		}
		value = strings.TrimSuffix(strings.TrimPrefix(value, "\n"), "\n")
		fields, text = append(fields, quoted(key)+": "+typed(value, types[key])), rest
	}
}

// quoted returns a text in JSON.
func quoted(text string) string {
	out, _ := jsontext.Append(nil, text) // a text cannot fail
	return string(out)
}

// kinds are the types of JSON by their first byte, but for numbers.
var kinds = map[byte]string{'{': "object", '[': "array", '"': "string", 't': "boolean", 'f': "boolean", 'n': "null"}

// typed returns a value in JSON.
func typed(value string, types []string) string {
	raw := strings.TrimSpace(value)
	raw = cmp.Or(python[raw], raw) // as the template shows them
	if json.Valid([]byte(raw)) {
		if kind := cmp.Or(kinds[raw[0]], "number"); kind != "string" && slices.Contains(types, kind) {
			return raw
		}
	}
	return quoted(value)
}

// schema is the part of a JSON schema that says which types a value may have.
type schema struct {
	Type       any               `json:"type"` // a name or a list of names
	AnyOf      []schema          `json:"anyOf"`
	OneOf      []schema          `json:"oneOf"`
	Properties map[string]schema `json:"properties"`
}

// types returns the names of types; an integer is a number.
func (s schema) types() []string {
	var out []string
	names, _ := s.Type.([]any)
	for _, n := range append(names, s.Type) {
		if name, ok := n.(string); ok {
			out = append(out, strings.Replace(name, "integer", "number", 1))
		}
	}
	for _, o := range slices.Concat(s.AnyOf, s.OneOf) {
		out = append(out, o.types()...)
	}
	return out
}

// parameterTypes returns the types of a tool's parameters. The definitions are lines of their own.
func parameterTypes(tools, name string) map[string][]string {
	for line := range strings.Lines(tools) {
		var t struct {
			Function struct {
				Name       string `json:"name"`
				Parameters schema `json:"parameters"`
			} `json:"function"`
		}
		_ = json.Unmarshal([]byte(line), &t) // other lines are text, and a schema may be just true
		if t.Function.Name == name {
			out := map[string][]string{}
			for key, s := range t.Function.Parameters.Properties {
				out[key] = s.types()
			}
			return out
		}
	}
	return nil
}
