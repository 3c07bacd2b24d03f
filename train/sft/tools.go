package sft

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"vagen/internal/jsontext"
	"vagen/policy"
)

// toolsKey is the column of definitions of tools, callsKey the field of a message with calls.
const (
	toolsKey = "tools"
	callsKey = "tool_calls"
)

var errNoTools = errors.New("it is set, but the learner shows no tools")

// with returns the encoder of conversations with definitions of tools.
func (e *encoding) with(tools string) (policy.Encoder, error) {
	if known, ok := e.tools[tools]; ok {
		return known, nil
	}
	if tools == "" {
		return e.encode, nil
	}
	c, ok := policy.As[policy.ToolEncoder](e.encode)
	if !ok {
		return nil, fmt.Errorf("%s: %w", toolsKey, errNoTools)
	}
	encode, err := c.WithTools(tools)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", toolsKey, err)
	}
	if e.tools == nil {
		e.tools = map[string]policy.Encoder{}
	}
	e.tools[tools] = encode
	return encode, nil
}

// withCalls returns the text of a message that calls tools.
func withCalls(encode policy.Encoder, m *message) (string, error) {
	c, ok := policy.As[policy.ToolEncoder](encode)
	if !ok {
		return "", fmt.Errorf("%s: %w", callsKey, errNoTools)
	}
	return c.ToolCalls(m.text, m.calls)
}

// keepTools replaces lists of tools and of calls in a record by their JSON, because chat
// templates show the keys of objects in their order. line is the record's text, n its number.
func keepTools(record map[string]any, line []byte, n int) {
	var raw json.RawMessage
	if bytes.Contains(line, []byte(`"tool`)) && jsontext.UnmarshalLine(line, n, &raw) == nil {
		keepJSON(record, raw)
	}
}

// keepJSON is keepTools for a value and its JSON.
func keepJSON(v any, raw json.RawMessage) {
	switch v := v.(type) {
	case map[string]any:
		var fields map[string]json.RawMessage
		_ = json.Unmarshal(raw, &fields) // v was decoded from it
		for k, x := range v {
			if _, list := x.([]any); list && (k == toolsKey || k == callsKey) {
				v[k] = fields[k]
			} else {
				keepJSON(x, fields[k])
			}
		}
	case []any:
		var items []json.RawMessage
		_ = json.Unmarshal(raw, &items)
		for i, x := range v {
			keepJSON(x, items[i])
		}
	}
}

// jsonList returns a list of tools or calls in JSON, "" for none. A list in parquet does not
// keep the order of keys, so that it is only accepted for calls whose arguments are texts.
func jsonList(v any, calls bool) (string, error) {
	var text string
	switch v := v.(type) {
	case nil:
		return "", nil
	case json.RawMessage:
		text = string(v)
	case []any: // of parquet
		if len(v) == 0 {
			return "", nil
		}
		if !calls || !textArguments(v) {
			return "", errors.New("it has mappings in parquet, which keep no order of their keys: store it as a JSON text")
		}
		raw, err := json.Marshal(v)
		if err != nil {
			return "", err
		}
		text = string(raw)
	default:
		var ok bool
		if text, ok = textOf(v); !ok {
			return "", fmt.Errorf("it is %s, must be a list", kindOf(v))
		}
		if text == "" {
			return "", nil
		}
	}
	var list []json.RawMessage
	if err := jsontext.Unmarshal([]byte(text), &list); err != nil {
		return "", fmt.Errorf("it is not a list in JSON: %w", err)
	}
	if len(list) == 0 {
		return "", nil
	}
	return text, nil
}

// textArguments reports whether the arguments of all calls are texts.
func textArguments(calls []any) bool {
	for _, call := range calls {
		fields, _ := call.(map[string]any)
		if inner, ok := fields["function"].(map[string]any); ok {
			fields = inner
		}
		if _, mapping := fields["arguments"].(map[string]any); mapping {
			return false
		}
	}
	return true
}
