package openenv

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"vagen/internal/field"
	"vagen/internal/jsontext"
)

// How responses are read as actions.
const (
	formatField = "field" // the answer is the value of one field
	formatJSON  = "json"  // the answer is an object with the action's fields
	formatWhole = "whole" // the whole response is the value of one field
)

// mapping makes actions of responses by the server's schema of actions.
type mapping struct {
	schema schema
	format string
	field  string
	fixed  map[string]any // fields that every action has
	visits int            // of schemas while a value is checked
}

// schema is a JSON Schema.
type schema map[string]any

// names are those of the fields of an object, without the one that all actions and observations have.
func (s schema) names() []string {
	names := slices.Sorted(maps.Keys(fields(s["properties"])))
	return slices.DeleteFunc(names, func(name string) bool { return name == "metadata" })
}

func (s schema) required() []string { return texts(s["required"]) }

func (s schema) property(name string) schema { return fields(fields(s["properties"])[name]) }

// newMapping chooses format and field if they are not given: of an action with one required field
// besides the fixed ones, the answer is its value, or the whole response if its name is response;
// of other actions it is an object.
func newMapping(s schema, format, field string, fixed map[string]any) (*mapping, error) {
	m := &mapping{schema: s, format: format, field: field, fixed: fixed}
	for name, v := range m.fixed {
		if err := m.check(s, name, v); err != nil {
			return nil, fmt.Errorf("action_fixed: %w", err)
		}
	}
	open := slices.DeleteFunc(s.required(), func(name string) bool {
		_, given := fixed[name]
		return given
	})
	if m.field == "" && len(open) == 1 && m.format != formatJSON {
		m.field = open[0]
	}
	switch {
	case m.format != "":
	case m.field == "":
		m.format = formatJSON
	case m.field == "response":
		m.format = formatWhole
	default:
		m.format = formatField
	}
	if m.format != formatJSON && s.property(m.field) == nil {
		return nil, fmt.Errorf("action_field: %q must be a field of the action: %s", m.field, strings.Join(s.names(), ", "))
	}
	return m, nil
}

// fields are those of an object, none of other values.
func fields(v any) map[string]any {
	o, _ := v.(map[string]any)
	return o
}

// elements are those of a list, none of other values.
func elements(v any) []any {
	list, _ := v.([]any)
	return list
}

// check checks the value of an object's field.
func (m *mapping) check(of schema, name string, v any) error {
	p := of.property(name)
	if p == nil && of["additionalProperties"] != false {
		return nil
	}
	if p == nil {
		return fmt.Errorf("field %q: it is unknown, the action has %s", clip(name), strings.Join(of.names(), ", "))
	}
	if err := m.valid(p, v); err != nil {
		return fmt.Errorf("field %q: %w", name, err)
	}
	return nil
}

// prompt describes the format of responses.
func (m *mapping) prompt() string {
	switch m.format {
	case formatWhole:
		return ""
	case formatField:
		return fmt.Sprintf("Answer with <answer>…</answer>, which holds %s: %s.", m.field, m.describe(m.field))
	}
	var b strings.Builder
	b.WriteString("Answer with <answer>{…}</answer>, which holds a JSON object with these fields:")
	for _, name := range m.schema.names() {
		if _, given := m.fixed[name]; !given {
			fmt.Fprintf(&b, "\n- %s: %s", name, m.describe(name))
		}
	}
	return b.String()
}

func (m *mapping) describe(name string) string {
	p := m.schema.property(name)
	out := m.kind(p, 0)
	if about, _ := p["description"].(string); about != "" {
		out += ", " + about
	}
	if !slices.Contains(m.schema.required(), name) {
		out += " (may be left out)"
	}
	return out
}

// action reads a response. The error says what is wrong with it, to the model.
func (m *mapping) action(response string) (map[string]any, error) {
	m.visits = 0
	response = strings.ToValidUTF8(response, "\ufffd")
	given := map[string]any{m.field: response}
	if m.format != formatWhole {
		end := strings.LastIndex(response, "</answer>")
		begin := strings.LastIndex(response[:max(end, 0)], "<answer>")
		if begin < 0 {
			return nil, errors.New("the answer must be between <answer> and </answer>")
		}
		answer := strings.TrimSpace(response[begin+len("<answer>") : end])
		if m.format == formatField {
			given[m.field] = m.parse(m.schema.property(m.field), answer)
		} else if tree, err := jsontext.Tree[map[string]any](answer, jsontext.Exact); err != nil || tree == nil {
			return nil, fmt.Errorf("the answer must be a JSON object, found %q", clip(answer))
		} else {
			given = tree
		}
	}
	action := map[string]any{}
	maps.Copy(action, m.fixed)
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if _, fixed := m.fixed[name]; fixed {
			return nil, fmt.Errorf("field %q: it cannot be chosen", name)
		}
		action[name] = given[name]
	}
	return action, m.valid(m.schema, action)
}

// parse reads text as a value: as text if the schema allows it, else as JSON.
func (m *mapping) parse(s schema, answer string) any {
	v, err := jsontext.Tree[any](answer, jsontext.Exact)
	if err != nil || m.valid(s, answer) == nil {
		return answer
	}
	return v
}

// Limits on schemas, whose alternatives may have alternatives: of visits while a value is checked, of their nesting in
// a description, and of its length in bytes.
const (
	maxVisits   = 10_000
	maxNested   = 16
	maxDescribe = 400
)

// resolve follows references within the schema, which may refer to others. Those that never end, in a
// circle, allow any value.
func (m *mapping) resolve(s schema) schema {
	for range maxNested {
		ref, _ := s["$ref"].(string)
		name, ok := strings.CutPrefix(ref, "#/$defs/")
		if !ok {
			return s
		}
		s = fields(fields(m.schema["$defs"])[name])
	}
	return nil
}

func alternatives(s schema) []any {
	return slices.Concat(elements(s["anyOf"]), elements(s["oneOf"]))
}

// kind describes the values that a schema allows.
func (m *mapping) kind(s schema, depth int) string {
	s = m.resolve(s)
	if all := alternatives(s); len(all) > 0 && depth < maxNested {
		var out string
		for _, a := range all {
			if len(out) > maxDescribe {
				return out + " or others"
			}
			out += " or " + m.kind(fields(a), depth+1)
		}
		return strings.TrimPrefix(out, " or ")
	}
	if c, ok := s["const"]; ok {
		return text(c)
	}
	if enum, ok := s["enum"].([]any); ok {
		var values []string
		for _, v := range enum {
			values = append(values, text(v))
		}
		return "one of " + strings.Join(values, ", ")
	}
	out := cmp.Or(strings.Join(texts(s["type"]), " or "), "any value")
	if low, ok := s["minimum"].(float64); ok {
		out += " at least " + text(low)
	}
	if high, ok := s["maximum"].(float64); ok {
		out += " at most " + text(high)
	}
	return out
}

// valid checks a value against types, alternatives, enumerations, bounds, elements and fields of a
// schema; the server checks the rest.
func (m *mapping) valid(s schema, v any) error {
	if m.visits++; m.visits > maxVisits {
		return nil
	}
	s = m.resolve(s)
	wrong := func() error { return fmt.Errorf("it must be %s, found %s", m.kind(s, 0), clip(text(v))) }
	if all := alternatives(s); len(all) > 0 {
		for _, a := range all {
			if m.valid(fields(a), v) == nil {
				return nil
			}
		}
		return wrong()
	}
	same := func(x any) bool { return text(x) == text(v) }
	enum, listed := s["enum"].([]any)
	c, constant := s["const"]
	if listed && !slices.ContainsFunc(enum, same) || constant && !same(c) || !typed(s, v) {
		return wrong()
	}
	if f, ok := (field.Rules{}).Number(v); ok {
		low, bounded := s["minimum"].(float64)
		if high, ok := s["maximum"].(float64); ok && f > high || bounded && f < low {
			return wrong()
		}
	}
	switch v := v.(type) {
	case []any:
		for i, x := range v {
			if err := m.valid(fields(s["items"]), x); err != nil {
				return fmt.Errorf("element %d: %w", i, err)
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if err := m.check(s, name, v[name]); err != nil {
				return err
			}
		}
		for _, name := range s.required() {
			if _, ok := v[name]; !ok {
				return fmt.Errorf("field %q: it is missing, must be %s", name, m.kind(s.property(name), 0))
			}
		}
	}
	return nil
}

// typed reports whether a value has one of the schema's types.
func typed(s schema, v any) bool {
	kind := "null"
	f, whole := field.Rules{}.Number(v)
	if whole {
		kind, whole = "number", f == math.Trunc(f)
	}
	switch v.(type) {
	case string:
		kind = "string"
	case bool:
		kind = "boolean"
	case []any:
		kind = "array"
	case map[string]any:
		kind = "object"
	}
	all := texts(s["type"]) // none is any
	return len(all) == 0 || slices.Contains(all, kind) || whole && slices.Contains(all, "integer")
}

// texts returns a text, or those of a list.
func texts(v any) (all []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, x := range v {
			all = append(all, texts(x)...)
		}
	}
	return all
}
