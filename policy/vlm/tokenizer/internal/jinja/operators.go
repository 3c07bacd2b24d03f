package jinja

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

func (e binaryExpr) eval(s *scope) any {
	a := e.a.eval(s)
	switch e.op {
	case "and":
		if !isTrue(a) {
			return a
		}
		return e.b.eval(s)
	case "or":
		if isTrue(a) {
			return a
		}
		return e.b.eval(s)
	}
	b := e.b.eval(s)
	s.line = e.line
	if e.op == "~" {
		return s.concat(s.toText(a), s.toText(b))
	}
	if e.op == "*" {
		if n, ok := b.(int); ok {
			if v, ok := s.repeat(a, n); ok {
				return v
			}
		}
		if n, ok := a.(int); ok {
			if v, ok := s.repeat(b, n); ok {
				return v
			}
		}
	}
	switch x := a.(type) {
	case string:
		if y, ok := b.(string); ok && e.op == "+" {
			return s.concat(x, y)
		}
	case []any:
		if y, ok := b.([]any); ok && e.op == "+" {
			s.countSteps(len(x) + len(y))
			s.alloc(listEntry * (len(x) + len(y)))
			return slices.Concat(x, y)
		}
	case int:
		if y, ok := b.(int); ok {
			return s.integer(e.op, x, y)
		}
	}
	s.fail("cannot compute %s %s %s", typeName(a), e.op, typeName(b))
	return nil
}

func (s *state) concat(x, y string) string {
	s.alloc(len(x) + len(y))
	return s.limitSize(x + y)
}

// repeat returns a string or a list n times, and false for other values.
func (s *state) repeat(v any, n int) (any, bool) {
	n = max(n, 0)
	switch v := v.(type) {
	case string:
		if len(v) > 0 && n > maxOutput/len(v) {
			s.fail("a string of more than %d bytes", maxOutput)
		}
		s.alloc(len(v) * n)
		return s.limitSize(strings.Repeat(v, n)), true
	case []any:
		if len(v) > 0 && n > maxSteps/len(v) {
			s.fail("more than %d steps", maxSteps)
		}
		s.countSteps(len(v) * n)
		s.alloc(listEntry * len(v) * n)
		return slices.Repeat(v, n), true
	}
	return nil, false
}

// limitSize returns t, or fails if it is longer than maxOutput.
func (s *state) limitSize(t string) string {
	s.countSteps(len(t) / 1024)
	s.checkLength(len(t))
	return t
}

func (s *state) checkLength(bytes int) {
	if bytes > maxOutput {
		s.fail("a string of more than %d bytes", maxOutput)
	}
}

func (s *state) integer(op string, x, y int) any {
	whole := func(v int, about float64) int { // which overflows unlike Python's
		if math.Abs(about) > 1<<62 {
			s.fail("the result of %d %s %d is too large", x, op, y)
		}
		return v
	}
	switch op {
	case "+":
		return whole(x+y, float64(x)+float64(y))
	case "-":
		return whole(x-y, float64(x)-float64(y))
	case "*":
		return whole(x*y, float64(x)*float64(y))
	}
	if y == 0 {
		s.fail("division by zero")
	}
	q, r := x/y, x%y
	if r != 0 && (r < 0) != (y < 0) { // Python rounds down
		q, r = q-1, r+y
	}
	switch op {
	case "//":
		return q
	case "%":
		return r
	}
	return float64(x) / float64(y)
}

func (e compareExpr) eval(s *scope) any {
	a := e.first.eval(s)
	for i, op := range e.ops {
		b := e.rest[i].eval(s)
		s.line = e.line
		s.countSize(a)
		s.countSize(b)
		if !s.compare(op, a, b) {
			return false
		}
		a = b
	}
	return true
}

func (s *state) compare(op string, a, b any) bool {
	switch op {
	case "==":
		return s.equal(a, b)
	case "!=":
		return !s.equal(a, b)
	case "in":
		return s.contains(a, b)
	case "not in":
		return !s.contains(a, b)
	}
	var c int
	text, isText := a.(string)
	other, areTexts := b.(string)
	if x, y, ok := numbers(a, b); ok {
		c = cmp.Compare(x, y)
	} else if isText && areTexts {
		c = strings.Compare(text, other)
	} else {
		s.fail("cannot compare %s %s %s", typeName(a), op, typeName(b))
	}
	switch op {
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	}
	return c >= 0
}

func (s *state) contains(a, b any) bool {
	switch list := b.(type) {
	case string:
		part, ok := a.(string)
		if !ok {
			s.fail("cannot look for %s in a string", typeName(a))
		}
		return strings.Contains(list, part)
	case []any:
		return slices.ContainsFunc(list, func(v any) bool { return s.equal(a, v) })
	case *dict:
		_, found := list.get(a)
		return found
	case undefined:
		return false
	}
	s.fail("cannot apply in to %s", typeName(b))
	return false
}
