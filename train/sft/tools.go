package sft

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

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

// shown returns the text of a message with reasoning or calls of tools as the chat template shows it.
func shown(encode policy.Encoder, m *message) (string, error) {
	c, ok := policy.As[policy.ToolEncoder](encode)
	switch {
	case !ok && m.calls != "":
		return "", fmt.Errorf("%s: %w", callsKey, errNoTools)
	case !ok:
		return m.text, nil
	}
	return c.ToolCalls(m.text, m.calls)
}

// keepTools replaces lists of tools and of calls in a record by their JSON, because chat
// templates show the keys of objects in their order. line is the record's text, n its number.
func keepTools(record map[string]any, line []byte, n int) {
	var raw json.RawMessage
	if !bytes.Contains(line, []byte(`"tool`)) || jsontext.UnmarshalLine(line, n, &raw) != nil {
		return
	}
	kept, err := keepLists(json.NewDecoder(bytes.NewReader(raw)))
	if fields, ok := kept.(map[string]any); ok && err == nil {
		maps.Copy(record, fields)
	}
}

// keepLists decodes the next value, with lists of tools and of calls as their JSON. It reads every byte a bounded
// number of times, however deep values are.
func keepLists(d *json.Decoder) (any, error) {
	token, err := d.Token()
	switch {
	case err != nil:
		return nil, err
	case token == json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := keepLists(d)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = d.Token()
		return list, err
	case token != json.Delim('{'):
		return token, nil
	}
	fields := map[string]any{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, _ := key.(string)
		if name == toolsKey || name == callsKey {
			fields[name], err = list(d)
		} else {
			fields[name], err = keepLists(d)
		}
		if err != nil {
			return nil, err
		}
	}
	_, err = d.Token()
	return fields, err
}

// list returns the next value, if it is a list its JSON.
func list(d *json.Decoder) (any, error) {
	var raw json.RawMessage
	if err := d.Decode(&raw); err != nil || raw[0] == '[' {
		return raw, err
	}
	var v any
	err := json.Unmarshal(raw, &v)
	return v, err
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
