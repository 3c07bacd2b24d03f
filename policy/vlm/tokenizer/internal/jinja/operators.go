package jinja

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// signed is a sign before an operand.
func signed(sign token, of expr) expr {
	factor := map[string]int{"+": 1, "-": -1}[sign.text]
	return func(s *scope) any {
		v := of(s)
		s.line = sign.line
		switch n := v.(type) {
		case int:
			return factor * n
		case float64:
			return float64(factor) * n
		}
		s.fail("cannot apply %s to %s", sign.text, typeName(v))
		return nil
	}
}

// binary is an operator between two operands.
func binary(op token, left, right expr) expr {
	if op.text == "and" || op.text == "or" {
		return func(s *scope) any {
			if a := left(s); isTrue(a) == (op.text == "or") {
				return a
			}
			return right(s)
		}
	}
	return func(s *scope) any {
		a, b := left(s), right(s)
		s.line = op.line
		return s.compute(op.text, a, b)
	}
}

func (s *state) compute(op string, a, b any) any {
	if op == "~" {
		return s.concat(s.toText(a), s.toText(b))
	}
	if op == "*" {
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
		if y, ok := b.(string); ok && op == "+" {
			return s.concat(x, y)
		}
	case []any:
		if y, ok := b.([]any); ok && op == "+" {
			s.countSteps(len(x) + len(y))
			s.alloc(listEntry * (len(x) + len(y)))
			return slices.Concat(x, y)
		}
	case int:
		if y, ok := b.(int); ok {
			return s.integer(op, x, y)
		}
	}
	s.fail("cannot compute %s %s %s", typeName(a), op, typeName(b))
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

// comparisons is a < b < c.
func comparisons(first expr, ops []string, rest []expr, line int) expr {
	return func(s *scope) any {
		a := first(s)
		for i, op := range ops {
			b := rest[i](s)
			s.line = line
			s.countSize(a)
			s.countSize(b)
			if !s.compare(op, a, b) {
				return false
			}
			a = b
		}
		return true
	}
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
