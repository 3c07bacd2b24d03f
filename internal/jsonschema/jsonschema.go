// Package jsonschema reads JSON Schemas of other programs: it describes values to a model, and checks them before they
// are sent. It knows types, alternatives, enumerations, bounds, elements, fields and references to definitions; the
// program itself checks the rest.
package jsonschema

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"vagen/internal/field"
	"vagen/internal/jsontext"
	"vagen/internal/transport"
)

// Schema is a JSON Schema, or a part of one. Nil allows any value.
type Schema map[string]any

// Limits on schemas, whose alternatives may have alternatives: of the parts and the entries of their lists that are
// visited while a value is checked, of their nesting in a description, and of its length in bytes; and of the bytes of
// a value in an error.
const (
	maxVisits   = 100_000
	maxNested   = 16
	maxDescribe = 400
	maxShown    = 200
)

// Fields returns the names of an object's fields, sorted.
func (s Schema) Fields() []string { return slices.Sorted(maps.Keys(jsontext.Object(s["properties"]))) }

// Required returns the names of the fields that an object must have.
func (s Schema) Required() []string { return texts(s["required"]) }

// Field returns the schema of an object's field, nil if there is none.
func (s Schema) Field(name string) Schema {
	return jsontext.Object(jsontext.Object(s["properties"])[name])
}

// resolve follows references within a schema, which may refer to others. Those that never end, in a circle, allow any
// value.
func (s Schema) resolve(part Schema) Schema {
	for range maxNested {
		ref, _ := part["$ref"].(string)
		path, ok := strings.CutPrefix(ref, "#/") // such as $defs/Place
		if !ok {
			return part
		}
		part = s
		for _, name := range strings.SplitN(path, "/", maxNested) {
			part = jsontext.Object(part[name])
		}
	}
	return nil
}

func (s Schema) alternatives() []any {
	return slices.Concat(jsontext.List(s["anyOf"]), jsontext.List(s["oneOf"]))
}

// DescribeField describes an object's field: the values that the schema allows, what it says about them, and whether
// the field may be left out.
func (s Schema) DescribeField(name string) string {
	f := s.Field(name)
	out := s.describe(f, 0)
	if about, _ := f["description"].(string); about != "" {
		out += ", " + about
	}
	if !slices.Contains(s.Required(), name) {
		out += " (may be left out)"
	}
	return out
}

// describe describes the values that a part of the schema allows.
func (s Schema) describe(part Schema, depth int) string {
	part = s.resolve(part)
	if all := part.alternatives(); len(all) > 0 && depth < maxNested {
		var out string
		for _, a := range all {
			if len(out) > maxDescribe {
				return out + " or others"
			}
			out += " or " + s.describe(jsontext.Object(a), depth+1)
		}
		return strings.TrimPrefix(out, " or ")
	}
	if c, ok := part["const"]; ok {
		return jsontext.Shown(c)
	}
	if enum, ok := part["enum"].([]any); ok {
		var values []string
		for _, v := range enum {
			values = append(values, jsontext.Shown(v))
		}
		return "one of " + strings.Join(values, ", ")
	}
	out := cmp.Or(strings.Join(texts(part["type"]), " or "), "any value")
	if low, ok := part["minimum"].(float64); ok {
		out += " at least " + jsontext.Shown(low)
	}
	if high, ok := part["maximum"].(float64); ok {
		out += " at most " + jsontext.Shown(high)
	}
	return out
}

// Check returns an error, for a model, about a value that a part of the schema does not allow.
func (s Schema) Check(part Schema, v any) error {
	if why := (&check{root: s}).value(part, v); why != nil {
		return why()
	}
	return nil
}

// Read reads what a model wrote as the value of an object's field. It is JSON if the schema names the type of that,
// other than a string, or if the schema does not allow it as a string; otherwise it is a string.
func (s Schema) Read(field, text string) (v any, isJSON bool) {
	part := s.Field(field)
	v, err := jsontext.Tree[any](text, jsontext.Exact)
	_, isText := v.(string)
	if err == nil && (!isText && (&check{root: s}).names(part, v) || s.Check(part, text) != nil) {
		return v, true
	}
	return text, false
}

// check is the check of one value. Its methods return why the schema does not allow the value, nil if it does. The
// errors are made at the end, since to describe what each of many alternatives allows would take long.
type check struct {
	root   Schema
	visits int
}

// visit follows the references of a part of the schema. ok is false after maxVisits.
func (c *check) visit(s Schema) (part Schema, ok bool) {
	ok = c.visits < maxVisits
	part = c.root.resolve(s)
	c.visits++
	for _, list := range []string{"anyOf", "oneOf", "enum", "type", "required"} {
		c.visits += len(jsontext.List(part[list]))
	}
	return part, ok
}

func (c *check) value(s Schema, v any) (why func() error) {
	s, ok := c.visit(s)
	if !ok {
		return nil
	}
	why = func() error { return fmt.Errorf("it must be %s, found %s", c.root.describe(s, 0), shown(v)) }
	if all := s.alternatives(); len(all) > 0 {
		if slices.ContainsFunc(all, func(a any) bool { return c.value(jsontext.Object(a), v) == nil }) {
			return nil
		}
		return why
	}
	enum, listed := s["enum"].([]any)
	constant, fixed := s["const"]
	types := texts(s["type"])
	allowed := func(x any) bool { return same(x, v) }
	if listed && !slices.ContainsFunc(enum, allowed) || fixed && !allowed(constant) ||
		len(types) > 0 && !typed(types, v) {
		return why
	}
	if f, ok := (field.Rules{}).Number(v); ok {
		low, bounded := s["minimum"].(float64)
		if high, ok := s["maximum"].(float64); ok && f > high || bounded && f < low {
			return why
		}
	}
	switch v := v.(type) {
	case []any:
		for i, x := range v {
			if why := c.value(jsontext.Object(s["items"]), x); why != nil {
				return func() error { return fmt.Errorf("element %d: %w", i, why()) }
			}
		}
	case map[string]any:
		return c.object(s, v)
	}
	return nil
}

func (c *check) object(s Schema, v map[string]any) (why func() error) {
	for _, name := range slices.Sorted(maps.Keys(v)) {
		p := s.Field(name)
		if p == nil && s["additionalProperties"] == false {
			return func() error {
				return fmt.Errorf("field %q: it is unknown, there are %s", shown(name), strings.Join(s.Fields(), ", "))
			}
		}
		if why := c.value(p, v[name]); why != nil {
			return func() error { return fmt.Errorf("field %q: %w", name, why()) }
		}
	}
	for _, name := range s.Required() {
		if _, ok := v[name]; !ok {
			return func() error {
				return fmt.Errorf("field %q: it is missing, must be %s", name, c.root.describe(s.Field(name), 0))
			}
		}
	}
	return nil
}

// names reports whether a part of the schema, or one of its alternatives, names the type of a value.
func (c *check) names(s Schema, v any) bool {
	s, ok := c.visit(s)
	return ok && (typed(texts(s["type"]), v) || slices.ContainsFunc(s.alternatives(), func(a any) bool {
		return c.names(jsontext.Object(a), v)
	}))
}

// same compares an entry of a schema with a value, which may have another type for numbers.
func same(x, v any) bool {
	switch kind := kindOf(x); {
	case kind != kindOf(v):
		return false
	case kind == "array" || kind == "object":
		return reflect.DeepEqual(x, v)
	}
	return jsontext.Shown(x) == jsontext.Shown(v)
}

// kindOf returns the type of a value in JSON.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "string"
	case bool:
		return "boolean"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "number"
}

// typed reports whether a value has one of some types.
func typed(types []string, v any) bool {
	f, ok := field.Rules{}.Number(v)
	return slices.Contains(types, kindOf(v)) || ok && f == math.Trunc(f) && slices.Contains(types, "integer")
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

// shown is the beginning of a value.
func shown(v any) string { return transport.Clip(jsontext.Shown(v), maxShown) }
