package gateway

import (
	"cmp"
	"encoding/json"
	"strings"

	"vagen/internal/jsonschema"
	"vagen/internal/jsontext"
	"vagen/internal/pytext"
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

// readParameters returns the arguments of a call in JSON, by the schema of the tool's parameters.
func readParameters(text string, of jsonschema.Schema) string {
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
		fields, text = append(fields, jsontext.Quote(key)+": "+inJSON(value, of, key)), rest
	}
}

// inJSON returns the value of a parameter in JSON.
func inJSON(value string, of jsonschema.Schema, key string) string {
	raw := strings.TrimSpace(value)
	raw = cmp.Or(pytext.Constants[raw], raw) // as the template shows them
	if _, isJSON := of.Read(key, raw); isJSON {
		return raw
	}
	return jsontext.Quote(value)
}

// parameters returns the schema of a tool's parameters. The definitions are lines of their own.
func parameters(tools, name string) jsonschema.Schema {
	for line := range strings.Lines(tools) {
		var t struct {
			Function struct {
				Name       string `json:"name"`
				Parameters any    `json:"parameters"` // may be just true
			} `json:"function"`
		}
		_ = json.Unmarshal([]byte(line), &t) // other lines are text
		if t.Function.Name == name {
			return jsontext.Object(t.Function.Parameters)
		}
	}
	return nil
}
