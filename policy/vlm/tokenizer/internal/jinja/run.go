package jinja

import (
	"slices"
	"strings"
)

const (
	maxSteps  = 200_000
	maxOutput = 1 << 20 // bytes of the output, and of any string
	maxMemory = 1 << 27 // bytes of all values created, including those already freed
	maxCalls  = 50      // nested calls of macros
	maxDepth  = 10_000  // of values in JSON, like that of encoding/json

	// Approximate memory of values in bytes.
	listEntry = 32   // including a number or a string header
	dictEntry = 128  // including its key
	scopeSize = 512  // including its map
	loopSize  = 1024 // one iteration, including the scope of its body
)

// RaisedError is the error that a template raises with raise_exception.
type RaisedError struct{ Message string }

func (e *RaisedError) Error() string { return "the template raised: " + e.Message }

// Render runs the template with the variables, which it does not change.
func (t *Template) Render(vars map[string]any) (out string, err error) {
	s := &scope{&state{out: &strings.Builder{}}, map[string]any{}, nil}
	defer func() {
		if r := recover(); r != nil {
			out, err = "", errorOfPanic(r)
		}
	}()
	for name, v := range vars {
		s.vars[name] = s.decoded(v)
	}
	if at, ok := vars["strftime_now"]; ok {
		s.vars["strftime_now"] = clock(at)
	}
	runAll(t.body, s)
	return s.out.String(), nil
}

type state struct {
	out   *strings.Builder
	line  int // of what is executed, for errors
	size  int
	steps int
	bytes int // memory of the values created so far; see maxMemory
	calls int
}

// scope holds the variables set in a loop's body or a macro. Names that it lacks are
// looked up in the outer scopes.
type scope struct {
	*state
	vars  map[string]any
	outer *scope
}

func (s *scope) inner() *scope { return &scope{s.state, map[string]any{}, s} }

func (sc *scope) get(name string) (any, bool) {
	for ; sc != nil; sc = sc.outer {
		if v, ok := sc.vars[name]; ok {
			return v, true
		}
	}
	return nil, false
}

// undefined is the value of a name or attribute that does not exist.
type undefined struct{ name string }

// namespace is a value whose attributes can be set from inside loops.
type namespace map[string]any

// function is callable from a template.
type function func(c call) any

// call is a call of a function, a method, a filter or a test.
type call struct {
	*state
	name string
	of   any // what a method, a filter or a test is applied to
	args []any
	kw   map[string]any
}

func (s *state) countStep() { s.countSteps(1) }

func (s *state) fail(format string, args ...any) { failAt(s.line, format, args...) }

// countSteps counts several steps, before they are done.
func (s *state) countSteps(steps int) {
	if s.steps += steps; s.steps > maxSteps {
		s.fail("more than %d steps", maxSteps)
	}
}

// alloc counts memory, if possible before it is allocated.
func (s *state) alloc(bytes int) {
	if s.bytes += bytes; s.bytes > maxMemory {
		s.fail("more than %d bytes of values", maxMemory)
	}
}

// countValue counts the memory of a new value and returns it.
func (s *state) countValue(v any) any {
	switch v := v.(type) {
	case string:
		s.alloc(len(v))
	case []any:
		s.alloc(listEntry * len(v))
	case *dict:
		s.alloc(dictEntry * len(v.keys))
	}
	return v
}

// countSize counts steps for reading the whole value.
func (s *state) countSize(v any) {
	switch v := v.(type) {
	case string:
		s.countSteps(len(v) / 64)
	case []any:
		s.countSteps(len(v) / 16)
	case *dict:
		s.countSteps(len(v.keys) / 16)
	}
}

func (s *state) write(text string) {
	if s.size += len(text); s.size > maxOutput {
		s.fail("more than %d bytes of output", maxOutput)
	}
	s.out.WriteString(text)
}

// capture runs statements and returns their output.
func (s *scope) capture(body []stmt) string {
	outer := s.out
	s.out = &strings.Builder{}
	runAll(body, s)
	text := s.out.String()
	s.out = outer
	return text
}

// stmt is a statement, which writes to the state's output.
type stmt func(*scope) control

// control is a statement's effect on the loop around it.
type control uint8

const (
	proceed control = iota
	breakLoop
	continueLoop
)

func runAll(list []stmt, s *scope) control {
	for _, st := range list {
		s.countStep()
		if c := st(s); c != proceed {
			return c
		}
	}
	return proceed
}

// loop is a for statement.
type loop struct {
	names       []string
	list, where expr // where may be nil
	body, other []stmt
	line        int
}

func (f loop) run(s *scope) control {
	list := f.list(s)
	s.line = f.line
	s.countSize(list)
	items := s.iterate(list)
	if f.where != nil {
		var kept []any
		for _, item := range items {
			s.countStep()
			s.alloc(scopeSize)
			inner := s.inner()
			f.bind(inner, item)
			if isTrue(f.where(inner)) {
				kept = append(kept, item)
			}
		}
		items = kept
	}
	whole := false // a round reached the end of the body, without which jinja2 runs the else
	for i, item := range items {
		s.countStep()
		s.alloc(loopSize)
		inner := s.inner()
		inner.vars["loop"] = loopAt(items, i)
		f.bind(inner, item)
		c := runAll(f.body, inner)
		if c == breakLoop {
			break
		}
		whole = whole || c == proceed
	}
	if whole {
		return proceed
	}
	return runAll(f.other, s)
}

func (f loop) bind(s *scope, item any) {
	if len(f.names) == 1 {
		s.vars[f.names[0]] = item
		return
	}
	s.line = f.line
	parts := s.iterate(item)
	if len(parts) != len(f.names) {
		s.fail("the loop has %d names, but an item has %d values", len(f.names), len(parts))
	}
	for i, name := range f.names {
		s.vars[name] = parts[i]
	}
}

func loopAt(items []any, i int) namespace {
	n := len(items)
	loop := namespace{
		"index": i + 1, "index0": i, "revindex": n - i, "revindex0": n - i - 1,
		"first": i == 0, "last": i == n-1, "length": n, "depth": 1, "depth0": 0,
	}
	if i > 0 {
		loop["previtem"] = items[i-1]
	}
	if i < n-1 {
		loop["nextitem"] = items[i+1]
	}
	return loop
}

// macro is a function of a template.
type macro struct {
	name     string
	params   []string
	defaults map[string]expr
	body     []stmt
}

func (m macro) run(s *scope) control {
	s.alloc(scopeSize)
	s.vars[m.name] = function(func(c call) any {
		if c.calls++; c.calls > maxCalls {
			c.fail("more than %d nested calls of macros", maxCalls)
		}
		defer func() { c.calls-- }()
		c.alloc(scopeSize)
		inner := s.inner()
		if len(c.args) > len(m.params) {
			c.fail("macro %s has %d parameters, found %d arguments", m.name, len(m.params), len(c.args))
		}
		for name := range c.kw {
			if !slices.Contains(m.params, name) {
				c.fail("macro %s has no parameter %s", m.name, name)
			}
		}
		for i, name := range m.params {
			switch v, ok := c.kw[name]; {
			case i < len(c.args):
				inner.vars[name] = c.args[i]
			case ok:
				inner.vars[name] = v
			case m.defaults[name] != nil:
				inner.vars[name] = m.defaults[name](inner)
			default:
				inner.vars[name] = undefined{name}
			}
		}
		return inner.capture(m.body)
	})
	return proceed
}
