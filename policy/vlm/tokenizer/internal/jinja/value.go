package jinja

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"
)

func typeName(v any) string {
	switch v := v.(type) {
	case nil:
		return "none"
	case bool:
		return "a boolean"
	case int, float64:
		return "a number"
	case string:
		return "a string"
	case []any:
		return "a list"
	case *dict:
		return "a dictionary"
	case undefined:
		return fmt.Sprintf("the undefined %q", v.name)
	}
	return fmt.Sprintf("%T", v)
}

// toText converts a value to its output. Lists and dictionaries are an error, because
// chat templates do not print them intentionally.
func (s *state) toText(v any) string {
	switch v := v.(type) {
	case undefined:
		return ""
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case int:
		return strconv.Itoa(v)
	case float64:
		return pythonFloat(v)
	case string:
		return v
	}
	s.fail("cannot write %s", typeName(v))
	return ""
}

func isTrue(v any) bool {
	switch v := v.(type) {
	case nil, undefined:
		return false
	case bool:
		return v
	case int:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case []any:
		return len(v) > 0
	case *dict:
		return len(v.keys) > 0
	}
	return true
}

// numbers converts both values to numbers; booleans are 0 and 1, as in Python.
func numbers(a, b any) (x, y float64, ok bool) {
	x, okX := number(a)
	y, okY := number(b)
	return x, y, okX && okY
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int:
		return float64(v), true
	case float64:
		return v, true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// equal compares two values; lists and dictionaries by their contents.
func (s *state) equal(a, b any) bool {
	s.countStep()
	if x, y, ok := numbers(a, b); ok {
		return x == y
	}
	switch x := a.(type) {
	case nil:
		return b == nil
	case string:
		y, ok := b.(string)
		if !ok || len(x) != len(y) {
			return false
		}
		s.countSize(x)
		return x == y
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, s.equal)
	case *dict:
		y, ok := b.(*dict)
		return ok && maps.EqualFunc(x.items, y.items, s.equal)
	case undefined:
		_, ok := b.(undefined)
		return ok
	}
	return false
}

// dict is a dictionary whose keys keep the order in which they were set, as in Python. Keys
// are strings and integers. It is not changed once a template has it.
type dict struct {
	keys  []any
	items map[any]any
}

func (d *dict) set(key, v any) {
	if d.items == nil {
		d.items = map[any]any{}
	}
	if _, again := d.items[key]; !again {
		d.keys = append(d.keys, key)
	}
	d.items[key] = v
}

func (d *dict) get(key any) (any, bool) {
	switch key.(type) {
	case string, int:
		v, ok := d.items[key]
		return v, ok
	}
	return nil, false
}

// iterate returns the items of a loop over a value. For dictionaries these are the keys.
func (s *state) iterate(v any) []any {
	switch v := v.(type) {
	case undefined:
		return nil
	case []any:
		return v
	case string:
		s.alloc(2 * listEntry * utf8.RuneCountInString(v))
		var list []any
		for _, r := range v {
			list = append(list, string(r))
		}
		return list
	case *dict:
		s.countSize(v)
		s.alloc(2 * listEntry * len(v.keys))
		return v.keys
	}
	s.fail("cannot loop over %s", typeName(v))
	return nil
}
