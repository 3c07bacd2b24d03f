package jinja

import (
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"vagen/internal/pytext"
)

func bindMethod(name string, m function, of any) function {
	return func(c call) any {
		c.countSize(of)
		c.name, c.of = name, of
		return m(c)
	}
}

// arg returns a positional or named argument, or otherwise if it is missing.
func (c call) arg(index int, name string, otherwise any) any {
	if index < len(c.args) {
		return c.args[index]
	}
	if v, ok := c.kw[name]; ok {
		return v
	}
	return otherwise
}

// text returns v, which must be a string.
func (c call) text(v any) string {
	s, ok := v.(string)
	if !ok {
		c.fail("%s needs a string, found %s", c.name, typeName(v))
	}
	return s
}

// each returns the items of the value that a method or filter is applied to.
func (c call) each() []any { return c.iterate(c.of) }

var globals = map[string]function{
	"raise_exception": func(c call) any {
		panic(templateError{&RaisedError{c.text(c.arg(0, "", ""))}})
	},
	"namespace": func(c call) any {
		if len(c.args) > 0 {
			c.fail("namespace is supported with names alone")
		}
		ns := namespace{}
		maps.Copy(ns, c.kw)
		return ns
	},
	"dict": func(c call) any {
		if len(c.args) > 0 || len(c.kw) > 1 {
			c.fail("dict() with more than one name is not supported, but {…} is")
		}
		d := new(dict)
		for k, v := range c.kw {
			d.set(k, v)
		}
		return d
	},
	"range": func(c call) any {
		var n [3]int
		for i, a := range c.args {
			v, ok := a.(int)
			if !ok || i > 2 {
				c.fail("range needs one to three integers")
			}
			n[i] = v
		}
		from, to, step := 0, n[0], 1
		if len(c.args) > 1 {
			from, to = n[0], n[1]
		}
		if len(c.args) > 2 {
			step = n[2]
		}
		if step == 0 {
			c.fail("the step of a range is 0")
		}
		var list []any
		for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
			c.countStep()
			if list = append(list, i); len(list) > maxSteps/10 {
				c.fail("range of more than %d numbers", maxSteps/10)
			}
			if next := i + step; (next > i) != (step > 0) {
				break // integer overflow
			}
		}
		return list
	},
}

// strip is Python's str.strip, lstrip or rstrip: it removes white space, or the
// characters given as argument.
func strip(left, right bool) function {
	return func(c call) any {
		s := c.text(c.of)
		drop := pytext.Space
		if given := c.arg(0, "chars", nil); given != nil {
			chars := c.text(given)
			c.countSteps(len(chars) / 4)
			set := make(map[rune]bool)
			for _, r := range chars {
				set[r] = true
			}
			drop = func(r rune) bool { return set[r] }
		}
		if left {
			s = strings.TrimLeftFunc(s, drop)
		}
		if right {
			s = strings.TrimRightFunc(s, drop)
		}
		return s
	}
}

func mapText(fn func(string) string) function {
	return func(c call) any { return fn(c.text(c.of)) }
}

func hasAffix(has func(s, part string) bool) function {
	return func(c call) any {
		s := c.text(c.of)
		if len(c.args) > 1 {
			c.fail("%s is supported with one argument alone", c.name)
		}
		if list, ok := c.arg(0, "", "").([]any); ok {
			return slices.ContainsFunc(list, func(v any) bool {
				c.countStep()
				c.countSize(v)
				return has(s, c.text(v))
			})
		}
		return has(s, c.text(c.arg(0, "", nil)))
	}
}

func capitalize(s string) string {
	r := []rune(strings.ToLower(s))
	if len(r) > 0 {
		r[0] = unicode.ToTitle(r[0])
	}
	return string(r)
}

var textMethods = map[string]function{
	"strip":      strip(true, true),
	"lstrip":     strip(true, false),
	"rstrip":     strip(false, true),
	"upper":      mapText(strings.ToUpper),
	"lower":      mapText(strings.ToLower),
	"capitalize": mapText(capitalize),
	"startswith": hasAffix(strings.HasPrefix),
	"endswith":   hasAffix(strings.HasSuffix),
	"replace": func(c call) any {
		if len(c.args) != 2 {
			c.fail("replace needs two strings")
		}
		of, old, to := c.text(c.of), c.text(c.args[0]), c.text(c.args[1])
		c.checkLength(strings.Count(of, old) * len(to))
		return c.limitSize(strings.ReplaceAll(of, old, to))
	},
	"split": func(c call) any {
		s, limit := c.text(c.of), -1
		if n, ok := c.arg(1, "maxsplit", -1).(int); ok && n >= 0 {
			limit = n + 1
		}
		var parts []string
		if sep := c.arg(0, "sep", nil); sep != nil {
			by := c.text(sep)
			if by == "" {
				c.fail("split by an empty string")
			}
			c.alloc(listEntry * strings.Count(s, by))
			parts = strings.SplitN(s, by, limit)
		} else if limit < 0 {
			parts = strings.FieldsFunc(s, pytext.Space)
		} else {
			c.fail("split by white space with a limit is not supported")
		}
		list := []any{}
		for _, p := range parts {
			list = append(list, p)
		}
		return list
	},
	"format": format,
	"join": func(c call) any {
		return c.join(c.arg(0, "", nil), c.text(c.of))
	},
}

func (c call) join(list any, sep string) string {
	var b strings.Builder
	for i, v := range c.iterate(list) {
		c.countStep()
		if i > 0 {
			b.WriteString(sep)
		}
		b.WriteString(c.toText(v))
		c.checkLength(b.Len())
	}
	return c.limitSize(b.String())
}

var dictMethods = map[string]function{
	"get": func(c call) any {
		if v, ok := c.of.(*dict).get(c.arg(0, "", nil)); ok {
			return v
		}
		return c.arg(1, "", nil)
	},
	"keys":  func(c call) any { return c.each() },
	"items": items,
	"values": func(c call) any {
		var list []any
		for _, k := range c.each() {
			list = append(list, c.of.(*dict).items[k])
		}
		return list
	},
}

func items(c call) any {
	d, ok := c.of.(*dict)
	if !ok {
		c.fail("items of %s", typeName(c.of))
	}
	var list []any
	for _, k := range c.iterate(d) {
		c.alloc(2 * listEntry)
		list = append(list, []any{k, d.items[k]})
	}
	return list
}

// ofText makes a method of strings a filter, which takes other values as their text.
func ofText(method function) function {
	return func(c call) any {
		c.of = c.toText(c.of)
		return method(c)
	}
}

var filters = map[string]function{
	"trim":       ofText(textMethods["strip"]),
	"upper":      ofText(textMethods["upper"]),
	"lower":      ofText(textMethods["lower"]),
	"capitalize": ofText(textMethods["capitalize"]),
	"safe":       func(c call) any { return c.of },
	"string":     func(c call) any { return c.toText(c.of) },
	"length":     length,
	"count":      length,
	"list":       func(c call) any { return c.each() },
	"items":      items,
	"first":      itemAt(0),
	"last":       itemAt(-1),
	"reverse": func(c call) any {
		list := slices.Clone(c.each())
		slices.Reverse(list)
		if _, ok := c.of.(string); ok {
			return c.join(list, "")
		}
		return list
	},
	"join": func(c call) any {
		if len(c.args) > 1 || c.kw["attribute"] != nil {
			c.fail("join of an attribute is not supported")
		}
		return c.join(c.of, c.text(c.arg(0, "d", "")))
	},
	"replace": ofText(textMethods["replace"]),
	"default": defaultFilter,
	"d":       defaultFilter,
	"tojson":  toJSON,
	"int":     toInt,

	"select":     choose(true, false),
	"reject":     choose(false, false),
	"map":        mapAttribute,
	"selectattr": choose(true, true),
	"rejectattr": choose(false, true),
}

// itemAt is the filter first or last.
func itemAt(index int) function {
	return func(c call) any {
		list := c.each()
		if i, ok := position(index, len(list)); ok {
			return list[i]
		}
		return undefined{c.name}
	}
}

func length(c call) any {
	switch v := c.of.(type) {
	case *dict:
		return len(v.keys)
	case string:
		return utf8.RuneCountInString(v)
	}
	return len(c.each())
}

func defaultFilter(c call) any {
	_, missing := c.of.(undefined)
	if missing || isTrue(c.arg(1, "boolean", false)) && !isTrue(c.of) {
		return c.arg(0, "default_value", "")
	}
	return c.of
}
