package jinja

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// test is what follows is: a property of a value, in some cases compared with an argument.
type test = func(c call) bool

// property is a test without arguments.
func property(has func(any) bool) test {
	return func(c call) bool {
		if len(c.args) > 0 {
			c.fail("test %q with arguments is not supported", c.name)
		}
		return has(c.of)
	}
}

// comparison is a test with one argument.
func comparison(op string) test {
	return func(c call) bool {
		if len(c.args) != 1 {
			c.fail("test %q needs one argument, found %d", c.name, len(c.args))
		}
		c.countSize(c.of)
		c.countSize(c.args[0])
		return c.compare(op, c.of, c.args[0])
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
		all[name] = property(has)
	}
	for name, op := range map[string]string{
		"==": "==", "eq": "==", "equalto": "==", "!=": "!=", "ne": "!=", "in": "in",
	} {
		all[name] = comparison(op)
	}
	return all
}()

// choose keeps the items that pass a test, or fail it, or those with such an attribute; without
// a test those that count as true.
func choose(pass, attr bool) function {
	return func(c call) any {
		name := ""
		if attr {
			if len(c.args) == 0 {
				c.fail("the name of an attribute is missing")
			}
			name, c.args = c.text(c.args[0]), c.args[1:]
		}
		passes := isTrue
		if len(c.args) > 0 {
			called := c.text(c.args[0])
			t, ok := tests[called]
			if !ok {
				c.fail("test %q is not supported", called)
			}
			passes = func(v any) bool { return t(call{c.state, called, v, c.args[1:], nil}) }
		}
		kept := []any{}
		for _, item := range c.each() {
			c.countStep()
			v := item
			if attr {
				v = c.attributeOf(item, name)
			}
			if passes(v) == pass {
				c.alloc(listEntry)
				kept = append(kept, item)
			}
		}
		return kept
	}
}

// mapAttribute is the filter map with the name of an attribute.
func mapAttribute(c call) any {
	if len(c.args) > 0 || len(c.kw) != 1 || c.kw["attribute"] == nil {
		c.fail("map is supported with attribute='…' alone")
	}
	name := c.text(c.kw["attribute"])
	list := []any{}
	for _, item := range c.each() {
		c.countStep()
		c.alloc(listEntry)
		list = append(list, c.attributeOf(item, name))
	}
	return list
}

// attributeOf is item.a.b for the name "a.b", where items of dictionaries come before methods.
func (c call) attributeOf(item any, name string) any {
	for part := range strings.SplitSeq(name, ".") {
		c.countStep()
		d, ok := item.(*dict)
		if !ok {
			item = c.attribute(item, part)
		} else if item, ok = d.get(part); !ok {
			item = undefined{part}
		}
	}
	return item
}

// toInt is the filter int: the number rounded towards 0, or the default for what is none.
func toInt(c call) any {
	if len(c.args) > 1 || c.kw["base"] != nil {
		c.fail("int with a base is not supported")
	}
	switch v := c.of.(type) {
	case int:
		return v
	case bool:
		if v {
			return 1
		}
		return 0
	case float64:
		return c.whole(v)
	case string:
		text := strings.TrimSpace(v)
		f, err := strconv.ParseFloat(strings.ReplaceAll(text, "_", ""), 64)
		read := err == nil && f-f == 0 && !strings.ContainsAny(text, "xX") // Python reads no hexadecimal digits here
		other := func(r rune) bool { return r > unicode.MaxASCII && unicode.IsDigit(r) }
		if read && strings.Contains(text, "_") || strings.ContainsFunc(text, other) {
			c.fail("int of the text %.40q is not supported", v)
		}
		if n, err := strconv.Atoi(text); err == nil {
			return n
		}
		if read {
			return c.whole(f)
		}
	}
	n, ok := c.arg(0, "default", 0).(int)
	if !ok {
		c.fail("the default of int must be an integer")
	}
	return n
}

// whole rounds a number towards 0. Python's integers have no limit.
func (c call) whole(v float64) int {
	if !(math.Abs(v) < 1<<62) {
		c.fail("the integer of %v is too large", v)
	}
	return int(v)
}

// format is Python's str.format for {}, {0} and {name} without format specifications.
func format(c call) any {
	text := c.text(c.of)
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
			c.fail("format: a brace is alone in %q", c.of)
		}
		var v any
		text = rest
		index, err := strconv.Atoi(name)
		if name == "" {
			index, err = next, nil
			next++
		}
		if err == nil && index >= 0 && index < len(c.args) {
			v = c.args[index]
		} else if v, ok = c.kw[name]; !ok {
			c.fail("format: {%s} has no argument or is not supported", name)
		}
		b.WriteString(c.toText(v))
		c.checkLength(b.Len())
	}
	b.WriteString(text)
	return c.limitSize(b.String())
}

// strftime is strftime_now of a fixed time, for the codes that chat templates use.
func strftime(at time.Time) function {
	return func(c call) any {
		format := c.text(c.arg(0, "", nil))
		c.countSteps(strings.Count(format, "%"))
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
				c.fail("strftime_now with %%%s is not supported", code)
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
