package jinja

import (
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

func bindMethod(m function, of any) function {
	return func(s *state, line int, args []any, kw map[string]any) any {
		s.countSize(line, of)
		return m(s, line, append([]any{of}, args...), kw)
	}
}

// arg returns a positional or named argument, or otherwise if it is missing. Argument 0
// of a method or filter is the value that it is applied to.
func arg(args []any, kw map[string]any, index int, name string, otherwise any) any {
	if index < len(args) {
		return args[index]
	}
	if v, ok := kw[name]; ok {
		return v
	}
	return otherwise
}

// requireString returns v, which must be a string; what names the caller in the error.
func requireString(line int, what string, v any) string {
	s, ok := v.(string)
	if !ok {
		failAt(line, "%s needs a string, found %s", what, typeName(v))
	}
	return s
}

var globals = map[string]function{
	"raise_exception": func(_ *state, line int, args []any, _ map[string]any) any {
		panic(templateError{&RaisedError{requireString(line, "raise_exception", arg(args, nil, 0, "", ""))}})
	},
	"namespace": func(_ *state, line int, args []any, kw map[string]any) any {
		if len(args) > 0 {
			failAt(line, "namespace is supported with names alone")
		}
		ns := namespace{}
		maps.Copy(ns, kw)
		return ns
	},
	"dict": func(_ *state, line int, args []any, kw map[string]any) any {
		if len(args) > 0 || len(kw) > 1 {
			failAt(line, "dict() with more than one name is not supported, but {…} is")
		}
		d := new(dict)
		for k, v := range kw {
			d.set(k, v)
		}
		return d
	},
	"range": func(s *state, line int, args []any, _ map[string]any) any {
		var n [3]int
		for i, a := range args {
			v, ok := a.(int)
			if !ok || i > 2 {
				failAt(line, "range needs one to three integers")
			}
			n[i] = v
		}
		from, to, step := 0, n[0], 1
		if len(args) > 1 {
			from, to = n[0], n[1]
		}
		if len(args) > 2 {
			step = n[2]
		}
		if step == 0 {
			failAt(line, "the step of a range is 0")
		}
		var list []any
		for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
			s.countStep(line)
			if list = append(list, i); len(list) > maxSteps/10 {
				failAt(line, "range of more than %d numbers", maxSteps/10)
			}
			if next := i + step; (next > i) != (step > 0) {
				break // integer overflow
			}
		}
		return list
	},
}

// Space is Python's str.isspace, with which it strips and splits texts: it has four separators more than Unicode.
func Space(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// strip is Python's str.strip, lstrip or rstrip: it removes white space, or the
// characters given as argument.
func strip(name string, left, right bool) function {
	return func(st *state, line int, args []any, kw map[string]any) any {
		s := requireString(line, name, args[0])
		drop := Space
		if given := arg(args, kw, 1, "chars", nil); given != nil {
			chars := requireString(line, name, given)
			st.countSteps(line, len(chars)/4)
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

func mapText(name string, fn func(string) string) function {
	return func(_ *state, line int, args []any, _ map[string]any) any {
		return fn(requireString(line, name, args[0]))
	}
}

func hasAffix(name string, has func(s, part string) bool) function {
	return func(st *state, line int, args []any, _ map[string]any) any {
		s := requireString(line, name, args[0])
		if len(args) > 2 {
			failAt(line, "%s is supported with one argument alone", name)
		}
		if list, ok := arg(args, nil, 1, "", "").([]any); ok {
			return slices.ContainsFunc(list, func(v any) bool {
				st.countStep(line)
				st.countSize(line, v)
				return has(s, requireString(line, name, v))
			})
		}
		return has(s, requireString(line, name, arg(args, nil, 1, "", nil)))
	}
}

func capitalize(s string) string {
	r := []rune(strings.ToLower(s))
	if len(r) > 0 {
		r[0] = unicode.ToTitle(r[0])
	}
	return string(r)
}

var textMethods = map[string]method{
	"strip":      strip("strip", true, true),
	"lstrip":     strip("lstrip", true, false),
	"rstrip":     strip("rstrip", false, true),
	"upper":      mapText("upper", strings.ToUpper),
	"lower":      mapText("lower", strings.ToLower),
	"capitalize": mapText("capitalize", capitalize),
	"startswith": hasAffix("startswith", strings.HasPrefix),
	"endswith":   hasAffix("endswith", strings.HasSuffix),
	"replace": func(s *state, line int, args []any, _ map[string]any) any {
		if len(args) != 3 {
			failAt(line, "replace needs two strings")
		}
		of, old, to := requireString(line, "replace", args[0]), requireString(line, "replace", args[1]),
			requireString(line, "replace", args[2])
		checkLength(line, strings.Count(of, old)*len(to))
		return s.limitSize(line, strings.ReplaceAll(of, old, to))
	},
	"split": func(st *state, line int, args []any, kw map[string]any) any {
		s, limit := requireString(line, "split", args[0]), -1
		if n, ok := arg(args, kw, 2, "maxsplit", -1).(int); ok && n >= 0 {
			limit = n + 1
		}
		var parts []string
		if sep := arg(args, kw, 1, "sep", nil); sep != nil {
			by := requireString(line, "split", sep)
			if by == "" {
				failAt(line, "split by an empty string")
			}
			st.alloc(line, listEntry*strings.Count(s, by))
			parts = strings.SplitN(s, by, limit)
		} else if limit < 0 {
			parts = strings.FieldsFunc(s, Space)
		} else {
			failAt(line, "split by white space with a limit is not supported")
		}
		list := []any{}
		for _, p := range parts {
			list = append(list, p)
		}
		return list
	},
	"format": format,
	"join": func(s *state, line int, args []any, _ map[string]any) any {
		return join(s, line, arg(args, nil, 1, "", nil), requireString(line, "join", args[0]))
	},
}

func join(s *state, line int, list any, sep string) string {
	var b strings.Builder
	for i, v := range s.iterate(line, list) {
		s.countStep(line)
		if i > 0 {
			b.WriteString(sep)
		}
		b.WriteString(toText(line, v))
		checkLength(line, b.Len())
	}
	return s.limitSize(line, b.String())
}

var dictMethods = map[string]method{
	"get": func(_ *state, _ int, args []any, _ map[string]any) any {
		if v, ok := args[0].(*dict).get(arg(args, nil, 1, "", nil)); ok {
			return v
		}
		return arg(args, nil, 2, "", nil)
	},
	"keys":  func(s *state, line int, args []any, _ map[string]any) any { return s.iterate(line, args[0]) },
	"items": items,
	"values": func(s *state, line int, args []any, _ map[string]any) any {
		var list []any
		for _, k := range s.iterate(line, args[0]) {
			list = append(list, args[0].(*dict).items[k])
		}
		return list
	},
}

func items(s *state, line int, args []any, _ map[string]any) any {
	d, ok := args[0].(*dict)
	if !ok {
		failAt(line, "items of %s", typeName(args[0]))
	}
	var list []any
	for _, k := range s.iterate(line, d) {
		s.alloc(line, 2*listEntry)
		list = append(list, []any{k, d.items[k]})
	}
	return list
}

// ofText makes a method of strings a filter, which takes other values as their text.
func ofText(method function) function {
	return func(s *state, line int, args []any, kw map[string]any) any {
		return method(s, line, append([]any{toText(line, args[0])}, args[1:]...), kw)
	}
}

var filters = map[string]function{
	"trim":       ofText(strip("trim", true, true)),
	"upper":      ofText(mapText("upper", strings.ToUpper)),
	"lower":      ofText(mapText("lower", strings.ToLower)),
	"capitalize": ofText(mapText("capitalize", capitalize)),
	"safe":       func(_ *state, _ int, args []any, _ map[string]any) any { return args[0] },
	"string": func(_ *state, line int, args []any, _ map[string]any) any {
		return toText(line, args[0])
	},
	"length": length,
	"count":  length,
	"list":   func(s *state, line int, args []any, _ map[string]any) any { return s.iterate(line, args[0]) },
	"items":  items,
	"first": func(s *state, line int, args []any, _ map[string]any) any {
		if list := s.iterate(line, args[0]); len(list) > 0 {
			return list[0]
		}
		return undefined{"first"}
	},
	"last": func(s *state, line int, args []any, _ map[string]any) any {
		if list := s.iterate(line, args[0]); len(list) > 0 {
			return list[len(list)-1]
		}
		return undefined{"last"}
	},
	"reverse": func(s *state, line int, args []any, _ map[string]any) any {
		list := slices.Clone(s.iterate(line, args[0]))
		slices.Reverse(list)
		if _, ok := args[0].(string); ok {
			return join(s, line, list, "")
		}
		return list
	},
	"join": func(s *state, line int, args []any, kw map[string]any) any {
		if len(args) > 2 || kw["attribute"] != nil {
			failAt(line, "join of an attribute is not supported")
		}
		return join(s, line, args[0], requireString(line, "join", arg(args, kw, 1, "d", "")))
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

func length(s *state, line int, args []any, _ map[string]any) any {
	switch v := args[0].(type) {
	case *dict:
		return len(v.keys)
	case string:
		return utf8.RuneCountInString(v)
	}
	return len(s.iterate(line, args[0]))
}

func defaultFilter(_ *state, _ int, args []any, kw map[string]any) any {
	_, missing := args[0].(undefined)
	if missing || isTrue(arg(args, kw, 2, "boolean", false)) && !isTrue(args[0]) {
		return arg(args, kw, 1, "default_value", "")
	}
	return args[0]
}
