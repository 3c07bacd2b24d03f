package jinja

func (e litExpr) eval(s *scope) any {
	s.countStep(0)
	return e.value
}

func (e nameExpr) eval(s *scope) any {
	s.countStep(0)
	if v, ok := s.get(e.name); ok {
		return v
	}
	if fn, ok := globals[e.name]; ok {
		return fn
	}
	return undefined(e)
}

func (e listExpr) eval(s *scope) any {
	s.alloc(0, listEntry*len(e.items))
	list := make([]any, len(e.items))
	for i, item := range e.items {
		list[i] = item.eval(s)
	}
	return list
}

func (e dictExpr) eval(s *scope) any {
	s.alloc(0, scopeSize+dictEntry*len(e.keys))
	d := new(dict)
	for i, k := range e.keys {
		key := k.eval(s)
		switch key.(type) {
		case string, int:
		default:
			failAt(0, "a dictionary key that is neither a string nor an integer is not supported")
		}
		d.set(key, e.values[i].eval(s))
	}
	return d
}

func (e attrExpr) eval(s *scope) any {
	return attribute(e.line, e.of.eval(s), e.name)
}

// attribute is a.name: a method if there is one with this name, otherwise an item.
func attribute(line int, of any, name string) any {
	switch v := of.(type) {
	case *dict:
		if m, ok := dictMethods[name]; ok {
			return bindMethod(name, m, of)
		}
		if item, ok := v.get(name); ok {
			return item
		}
	case namespace:
		if item, ok := v[name]; ok {
			return item
		}
	case string:
		if m, ok := textMethods[name]; ok {
			return bindMethod(name, m, of)
		}
	case undefined:
		failAt(line, "%q is undefined, it has no attribute %q", v.name, name)
	}
	return undefined{name}
}

func (e indexExpr) eval(s *scope) any {
	of, at := e.of.eval(s), e.at.eval(s)
	switch v := of.(type) {
	case *dict:
		if item, ok := v.get(at); ok {
			return item
		}
		key, _ := at.(string)
		return undefined{key}
	case namespace, undefined:
		key, _ := at.(string)
		return attribute(e.line, of, key)
	case []any:
		if i, ok := position(at, len(v)); ok {
			return v[i]
		}
	case string:
		if name, ok := at.(string); ok {
			return attribute(e.line, of, name)
		}
		s.countSize(e.line, v)
		s.alloc(e.line, 4*len(v))
		r := []rune(v)
		if i, ok := position(at, len(r)); ok {
			return string(r[i])
		}
	}
	return undefined{}
}

// position converts an index, which may be negative to count from the end, to an offset.
func position(at any, n int) (int, bool) {
	i, ok := at.(int)
	if ok && i < 0 {
		i += n
	}
	return i, ok && i >= 0 && i < n
}

func (e sliceExpr) eval(s *scope) any {
	bound := func(x expr) (int, bool) {
		if x == nil {
			return 0, false
		}
		switch v := x.eval(s).(type) {
		case nil:
			return 0, false
		case int:
			return v, true
		}
		failAt(e.line, "a slice needs integers")
		return 0, false
	}
	of := e.of.eval(s)
	step, ok := bound(e.step)
	if !ok {
		step = 1
	}
	if step == 0 {
		failAt(e.line, "slice step 0")
	}
	from, hasFrom := bound(e.from)
	to, hasTo := bound(e.to)
	s.countSize(e.line, of)
	switch v := of.(type) {
	case string:
		s.alloc(e.line, 4*len(v))
		return s.countValue(e.line, string(slice([]rune(v), from, to, step, hasFrom, hasTo)))
	case []any:
		return s.countValue(e.line, slice(v, from, to, step, hasFrom, hasTo))
	}
	failAt(e.line, "cannot slice %s", typeName(of))
	return nil
}

// slice follows Python's rules for out-of-range and negative bounds.
func slice[T any](list []T, from, to, step int, hasFrom, hasTo bool) []T {
	n := len(list)
	low, high := 0, n
	if step < 0 {
		low, high = -1, n-1
	}
	fix := func(i int, has bool, otherwise int) int {
		if !has {
			return otherwise
		}
		if i < 0 {
			i += n
		}
		return min(max(i, low), high)
	}
	out := []T{}
	if step > 0 {
		for i, end := fix(from, hasFrom, low), fix(to, hasTo, high); i < end; i += min(step, n) {
			out = append(out, list[i])
		}
		return out
	}
	for i, end := fix(from, hasFrom, high), fix(to, hasTo, low); i > end; i += max(step, -n) {
		out = append(out, list[i])
	}
	return out
}

func (e callExpr) eval(s *scope) any {
	s.countStep(e.line)
	fn, ok := e.fn.eval(s).(function)
	name := "it"
	switch f := e.fn.(type) {
	case nameExpr:
		name = f.name
	case attrExpr:
		name = "." + f.name
	}
	if !ok {
		failAt(e.line, "cannot call %s: not a supported function or method", name)
	}
	args, kw := evalArgs(s, e.args, e.kw)
	s.alloc(e.line, scopeSize)
	return s.countValue(e.line, fn(call{s.state, e.line, name, nil, args, kw}))
}

func evalArgs(s *scope, args []expr, kw map[string]expr) ([]any, map[string]any) {
	values := make([]any, len(args))
	for i, a := range args {
		values[i] = a.eval(s)
	}
	named := map[string]any{}
	for name, a := range kw {
		named[name] = a.eval(s)
	}
	return values, named
}

func (e filterExpr) eval(s *scope) any {
	fn, ok := filters[e.name]
	if !ok {
		failAt(e.line, "filter %q is not supported", e.name)
	}
	of := e.of.eval(s)
	s.countSize(e.line, of)
	args, kw := evalArgs(s, e.args, e.kw)
	s.alloc(e.line, scopeSize)
	return s.countValue(e.line, fn(call{s.state, e.line, e.name, of, args, kw}))
}

func (e testExpr) eval(s *scope) any {
	fn, ok := tests[e.name]
	if !ok {
		failAt(e.line, "test %q is not supported", e.name)
	}
	args, _ := evalArgs(s, e.args, nil)
	return fn(call{s.state, e.line, e.name, e.of.eval(s), args, nil}) != e.negate
}

func (e unaryExpr) eval(s *scope) any {
	v := e.of.eval(s)
	if e.op == "not" {
		return !isTrue(v)
	}
	switch n := v.(type) {
	case int:
		if e.op == "-" {
			return -n
		}
		return n
	case float64:
		if e.op == "-" {
			return -n
		}
		return n
	}
	failAt(e.line, "cannot apply %s to %s", e.op, typeName(v))
	return nil
}

func (e condExpr) eval(s *scope) any {
	switch {
	case isTrue(e.cond.eval(s)):
		return e.then.eval(s)
	case e.other != nil:
		return e.other.eval(s)
	}
	return undefined{"condition without else"}
}
