package openenv

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"vagen/internal/jsonschema"
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
	schema jsonschema.Schema
	format string
	field  string
	fixed  map[string]any // fields that every action has
}

// newMapping chooses format and field if they are not given: of an action with one required field
// besides the fixed ones, the answer is its value, or the whole response if its name is response;
// of other actions it is an object.
func newMapping(s jsonschema.Schema, format, field string, fixed map[string]any) (*mapping, error) {
	m := &mapping{schema: s, format: format, field: field, fixed: fixed}
	some := maps.Clone(s)
	delete(some, "required")
	if err := s.Check(some, fixed); len(fixed) > 0 && err != nil {
		return nil, fmt.Errorf("action_fixed: %w", err)
	}
	open := slices.DeleteFunc(s.Required(), func(name string) bool {
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
	if m.format != formatJSON && s.Field(m.field) == nil {
		return nil, fmt.Errorf("action_field: %q must be a field of the action: %s", m.field,
			strings.Join(s.Fields(), ", "))
	}
	return m, nil
}

// prompt describes the format of responses.
func (m *mapping) prompt() string {
	switch m.format {
	case formatWhole:
		return ""
	case formatField:
		return fmt.Sprintf("Answer with <answer>…</answer>, which holds %s: %s.", m.field,
			m.schema.DescribeField(m.field))
	}
	var b strings.Builder
	b.WriteString("Answer with <answer>{…}</answer>, which holds a JSON object with these fields:")
	for _, name := range m.schema.Fields() {
		if _, given := m.fixed[name]; !given && name != "metadata" { // which every action has
			fmt.Fprintf(&b, "\n- %s: %s", name, m.schema.DescribeField(name))
		}
	}
	return b.String()
}

// action reads a response. The error says what is wrong with it, to the model.
func (m *mapping) action(response string) (map[string]any, error) {
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
			given[m.field], _ = m.schema.Read(m.field, answer)
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
	return action, m.schema.Check(m.schema, action)
}
