package jinja

func (e litExpr) eval(s *scope) any {
	s.countStep()
	return e.value
}

func (e nameExpr) eval(s *scope) any {
	s.countStep()
	if v, ok := s.get(e.name); ok {
		return v
	}
	if fn, ok := globals[e.name]; ok {
		return fn
	}
	return undefined(e)
}

func (e listExpr) eval(s *scope) any {
	s.alloc(listEntry * len(e.items))
	list := make([]any, len(e.items))
	for i, item := range e.items {
		list[i] = item.eval(s)
	}
	return list
}

func (e dictExpr) eval(s *scope) any {
	s.alloc(scopeSize + dictEntry*len(e.keys))
	d := new(dict)
	for i, k := range e.keys {
		key := k.eval(s)
		switch key.(type) {
		case string, int:
		default:
			s.fail("a dictionary key that is neither a string nor an integer is not supported")
		}
		d.set(key, e.values[i].eval(s))
	}
	return d
}

func (e attrExpr) eval(s *scope) any {
	of := e.of.eval(s)
	s.line = e.line
	return s.attribute(of, e.name)
}

// attribute is a.name: a method if there is one with this name, otherwise an item.
func (s *state) attribute(of any, name string) any {
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
		s.fail("%q is undefined, it has no attribute %q", v.name, name)
	}
	return undefined{name}
}

func (e indexExpr) eval(s *scope) any {
	of, at := e.of.eval(s), e.at.eval(s)
	s.line = e.line
	switch v := of.(type) {
	case *dict:
		if item, ok := v.get(at); ok {
			return item
		}
		key, _ := at.(string)
		return undefined{key}
	case namespace, undefined:
		key, _ := at.(string)
		return s.attribute(of, key)
	case []any:
		if i, ok := position(at, len(v)); ok {
			return v[i]
		}
	case string:
		if name, ok := at.(string); ok {
			return s.attribute(of, name)
		}
		s.countSize(v)
		s.alloc(4 * len(v))
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
		v := x.eval(s)
		s.line = e.line
		switch v := v.(type) {
		case nil:
			return 0, false
		case int:
			return v, true
		}
		s.fail("a slice needs integers")
		return 0, false
	}
	of := e.of.eval(s)
	s.line = e.line
	step, ok := bound(e.step)
	if !ok {
		step = 1
	}
	if step == 0 {
		s.fail("slice step 0")
	}
	from, hasFrom := bound(e.from)
	to, hasTo := bound(e.to)
	s.countSize(of)
	switch v := of.(type) {
	case string:
		s.alloc(4 * len(v))
		return s.countValue(string(slice([]rune(v), from, to, step, hasFrom, hasTo)))
	case []any:
		return s.countValue(slice(v, from, to, step, hasFrom, hasTo))
	}
	s.fail("cannot slice %s", typeName(of))
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
	s.countStep()
	fn, ok := e.fn.eval(s).(function)
	s.line = e.line
	name := "it"
	switch f := e.fn.(type) {
	case nameExpr:
		name = f.name
	case attrExpr:
		name = "." + f.name
	}
	if !ok {
		s.fail("cannot call %s: not a supported function or method", name)
	}
	args, kw := evalArgs(s, e.line, e.args, e.kw)
	s.alloc(scopeSize)
	return s.countValue(fn(call{s.state, name, nil, args, kw}))
}

// evalArgs returns the arguments of a call in a line.
func evalArgs(s *scope, line int, args []expr, kw map[string]expr) ([]any, map[string]any) {
	values := make([]any, len(args))
	for i, a := range args {
		values[i] = a.eval(s)
	}
	named := map[string]any{}
	for name, a := range kw {
		named[name] = a.eval(s)
	}
	s.line = line
	return values, named
}

func (e filterExpr) eval(s *scope) any {
	fn, ok := filters[e.name]
	s.line = e.line
	if !ok {
		s.fail("filter %q is not supported", e.name)
	}
	of := e.of.eval(s)
	s.countSize(of)
	args, kw := evalArgs(s, e.line, e.args, e.kw)
	s.alloc(scopeSize)
	return s.countValue(fn(call{s.state, e.name, of, args, kw}))
}

func (e testExpr) eval(s *scope) any {
	fn, ok := tests[e.name]
	s.line = e.line
	if !ok {
		s.fail("test %q is not supported", e.name)
	}
	args, _ := evalArgs(s, e.line, e.args, nil)
	of := e.of.eval(s)
	s.line = e.line
	return fn(call{s.state, e.name, of, args, nil}) != e.negate
}

func (e unaryExpr) eval(s *scope) any {
	v := e.of.eval(s)
	s.line = e.line
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
	s.fail("cannot apply %s to %s", e.op, typeName(v))
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
