package jinja

// expr is an expression, which returns its value.
type expr func(*scope) any

func constant(v any) expr {
	return func(s *scope) any {
		s.countStep()
		return v
	}
}

func variable(name string) expr {
	return func(s *scope) any {
		s.countStep()
		if v, ok := s.get(name); ok {
			return v
		}
		if fn, ok := globals[name]; ok {
			return fn
		}
		return undefined{name}
	}
}

func listOf(items []expr) expr {
	return func(s *scope) any {
		s.alloc(listEntry * len(items))
		list := make([]any, len(items))
		for i, item := range items {
			list[i] = item(s)
		}
		return list
	}
}

func dictOf(keys, values []expr) expr {
	return func(s *scope) any {
		s.alloc(scopeSize + dictEntry*len(keys))
		d := new(dict)
		for i, k := range keys {
			key := k(s)
			switch key.(type) {
			case string, int:
			default:
				s.fail("a dictionary key that is neither a string nor an integer is not supported")
			}
			d.set(key, values[i](s))
		}
		return d
	}
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

// index is of[at].
func (s *state) index(of, at any) any {
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

// sliceOf is of[from:to:step], of which all but the first may be nil.
func sliceOf(of expr, parts [3]expr, line int) expr {
	return func(s *scope) any {
		of := of(s)
		s.line = line
		bound := func(x expr) (int, bool) {
			if x == nil {
				return 0, false
			}
			v := x(s)
			s.line = line
			switch v := v.(type) {
			case nil:
				return 0, false
			case int:
				return v, true
			}
			s.fail("a slice needs integers")
			return 0, false
		}
		step, ok := bound(parts[2])
		if !ok {
			step = 1
		}
		if step == 0 {
			s.fail("slice step 0")
		}
		from, hasFrom := bound(parts[0])
		to, hasTo := bound(parts[1])
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

// arguments are those of a call in a line.
type arguments struct {
	list  []expr
	named map[string]expr
	line  int
}

func (a arguments) values(s *scope) ([]any, map[string]any) {
	list := make([]any, len(a.list))
	for i, x := range a.list {
		list[i] = x(s)
	}
	named := map[string]any{}
	for name, x := range a.named {
		named[name] = x(s)
	}
	s.line = a.line
	return list, named
}

// callOf calls a function or a method, which errors name.
func callOf(of expr, name string, a arguments) expr {
	return func(s *scope) any {
		s.countStep()
		fn, ok := of(s).(function)
		s.line = a.line
		if !ok {
			s.fail("cannot call %s: not a supported function or method", name)
		}
		list, named := a.values(s)
		s.alloc(scopeSize)
		return s.countValue(fn(call{s.state, name, nil, list, named}))
	}
}

func filterOf(of expr, name string, a arguments) expr {
	return func(s *scope) any {
		fn, ok := filters[name]
		s.line = a.line
		if !ok {
			s.fail("filter %q is not supported", name)
		}
		of := of(s)
		s.countSize(of)
		list, named := a.values(s)
		s.alloc(scopeSize)
		return s.countValue(fn(call{s.state, name, of, list, named}))
	}
}

func testOf(of expr, name string, a arguments, negate bool) expr {
	return func(s *scope) any {
		fn, ok := tests[name]
		s.line = a.line
		if !ok {
			s.fail("test %q is not supported", name)
		}
		list, _ := a.values(s)
		of := of(s)
		s.line = a.line
		return fn(call{s.state, name, of, list, nil}) != negate
	}
}
