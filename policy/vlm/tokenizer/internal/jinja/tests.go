package jinja

import (
	"strconv"
	"strings"
	"time"
)

// test is what follows is: a property of a value, in some cases compared with an argument.
type test = func(s *state, line int, v any, args []any) bool

// property is a test without arguments.
func property(name string, has func(any) bool) test {
	return func(_ *state, line int, v any, args []any) bool {
		if len(args) > 0 {
			failAt(line, "test %q with arguments is not supported", name)
		}
		return has(v)
	}
}

// comparison is a test with one argument.
func comparison(name, op string) test {
	return func(s *state, line int, v any, args []any) bool {
		if len(args) != 1 {
			failAt(line, "test %q needs one argument, found %d", name, len(args))
		}
		s.countSize(line, v)
		s.countSize(line, args[0])
		return s.compare(line, op, v, args[0])
	}
}

func isA[T any](v any) bool { _, ok := v.(T); return ok }

func isSequence(v any) bool {
	switch v.(type) {
	case string, []any, *dict, undefined:
		return true
	}
	return false
}

var tests = func() map[string]test {
	all := map[string]test{}
	for name, has := range map[string]func(any) bool{
		"defined":   func(v any) bool { return !isA[undefined](v) },
		"undefined": isA[undefined],
		"none":      func(v any) bool { return v == nil },
		"string":    isA[string],
		"boolean":   isA[bool],
		"true":      func(v any) bool { return v == true },
		"false":     func(v any) bool { return v == false },
		"integer":   isA[int],
		"number":    func(v any) bool { _, ok := number(v); return ok },
		"mapping":   isA[*dict],
		"iterable":  isSequence,
		"sequence":  isSequence,
		"callable":  isA[function],
	} {
		all[name] = property(name, has)
	}
	for name, op := range map[string]string{
		"==": "==", "eq": "==", "equalto": "==", "!=": "!=", "ne": "!=", "in": "in",
	} {
		all[name] = comparison(name, op)
	}
	return all
}()

// choose keeps the items that pass a test, or fail it, or those with such an attribute; without
// a test those that count as true.
func choose(pass, attr bool) function {
	return func(s *state, line int, args []any, _ map[string]any) any {
		of, args := args[0], args[1:]
		name := ""
		if attr {
			if len(args) == 0 {
				failAt(line, "the name of an attribute is missing")
			}
			name, args = requireString(line, "selectattr", args[0]), args[1:]
		}
		passes := func(v any) bool { return isTrue(v) }
		if len(args) > 0 {
			called := requireString(line, "select", args[0])
			t, ok := tests[called]
			if !ok {
				failAt(line, "test %q is not supported", called)
			}
			passes = func(v any) bool { return t(s, line, v, args[1:]) }
		}
		kept := []any{}
		for _, item := range s.iterate(line, of) {
			s.countStep(line)
			v := item
			if attr {
				v = attributeOf(line, item, name)
			}
			if passes(v) == pass {
				s.alloc(line, listEntry)
				kept = append(kept, item)
			}
		}
		return kept
	}
}

// mapAttribute is the filter map with the name of an attribute.
func mapAttribute(s *state, line int, args []any, kw map[string]any) any {
	if len(args) > 1 || len(kw) != 1 || kw["attribute"] == nil {
		failAt(line, "map is supported with attribute='…' alone")
	}
	name := requireString(line, "map", kw["attribute"])
	list := []any{}
	for _, item := range s.iterate(line, args[0]) {
		s.countStep(line)
		s.alloc(line, listEntry)
		list = append(list, attributeOf(line, item, name))
	}
	return list
}

// attributeOf is item.a.b for the name "a.b", where items of dictionaries come before methods.
func attributeOf(line int, item any, name string) any {
	for part := range strings.SplitSeq(name, ".") {
		if d, ok := item.(*dict); ok {
			if v, ok := d.get(part); ok {
				item = v
				continue
			}
			item = undefined{part}
			continue
		}
		item = attribute(line, item, part)
	}
	return item
}

// toInt is the filter int: the number rounded towards 0, or the default for what is none.
func toInt(_ *state, line int, args []any, kw map[string]any) any {
	if len(args) > 2 || kw["base"] != nil {
		failAt(line, "int with a base is not supported")
	}
	switch v := args[0].(type) {
	case int:
		return v
	case bool:
		if v {
			return 1
		}
		return 0
	case float64:
		return int(v)
	case string:
		text := strings.TrimSpace(v)
		if n, err := strconv.Atoi(text); err == nil {
			return n
		}
		if f, err := strconv.ParseFloat(text, 64); err == nil && f > -1e15 && f < 1e15 {
			return int(f)
		}
	}
	n, ok := arg(args, kw, 1, "default", 0).(int)
	if !ok {
		failAt(line, "the default of int must be an integer")
	}
	return n
}

// format is Python's str.format for {}, {0} and {name} without format specifications.
func format(s *state, line int, args []any, kw map[string]any) any {
	text, values := requireString(line, "format", args[0]), args[1:]
	var b strings.Builder
	for next := 0; ; {
		at := strings.IndexAny(text, "{}")
		if at < 0 {
			break
		}
		b.WriteString(text[:at])
		if at+1 < len(text) && text[at+1] == text[at] { // {{ is {
			b.WriteByte(text[at])
			text = text[at+2:]
			continue
		}
		name, rest, ok := strings.Cut(text[at+1:], "}")
		if text[at] == '}' || !ok {
			failAt(line, "format: a brace is alone in %q", args[0])
		}
		var v any
		text = rest
		index, err := strconv.Atoi(name)
		if name == "" {
			index, err = next, nil
			next++
		}
		if err == nil && index >= 0 && index < len(values) {
			v = values[index]
		} else if v, ok = kw[name]; !ok {
			failAt(line, "format: {%s} has no argument or is not supported", name)
		}
		b.WriteString(toText(line, v))
		checkLength(line, b.Len())
	}
	b.WriteString(text)
	return s.limitSize(line, b.String())
}

// strftime is strftime_now of a fixed time, for the codes that chat templates use.
func strftime(at time.Time) function {
	return func(_ *state, line int, args []any, _ map[string]any) any {
		format := requireString(line, "strftime_now", arg(args, nil, 0, "", nil))
		var b strings.Builder
		for {
			text, code, ok := strings.Cut(format, "%")
			b.WriteString(text)
			if !ok {
				return b.String()
			}
			code, format = code[:min(1, len(code))], code[min(1, len(code)):]
			layout, known := strftimeLayouts[code]
			if !known {
				failAt(line, "strftime_now with %%%s is not supported", code)
			}
			b.WriteString(at.Format(layout))
		}
	}
}

// strftimeLayouts are Go's layouts of Python's codes.
var strftimeLayouts = map[string]string{
	"Y": "2006", "y": "06", "m": "01", "d": "02", "B": "January", "b": "Jan", "A": "Monday", "a": "Mon",
	"H": "15", "I": "03", "M": "04", "S": "05", "p": "PM", "j": "002", "%": "%",
}

// clock returns strftime_now for a variable of that name: a time or a date, as text.
func clock(v any) function {
	text, _ := v.(string)
	for _, layout := range []string{time.DateOnly, time.DateTime, time.RFC3339} {
		if at, err := time.Parse(layout, text); err == nil {
			return strftime(at)
		}
	}
	failAt(0, "strftime_now: %v: must be a time, such as 2026-01-31 or 2026-01-31T15:04:05Z", v)
	return nil
}
