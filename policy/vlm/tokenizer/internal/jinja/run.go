package jinja

import (
	"maps"
	"strings"
)

const (
	maxSteps  = 200_000
	maxOutput = 1 << 20 // bytes, also of a text on the way
	maxMemory = 1 << 27 // bytes of all values made, also of those that are gone again
	maxCalls  = 50      // macros in macros

	// What values take in memory, about, in bytes.
	listEntry = 32   // with a number or the head of a text
	dictEntry = 128  // with its name
	scopeSize = 512  // with its map
	loopSize  = 1024 // with the scope of its body
)

// RaisedError is the error of a template that calls raise_exception.
type RaisedError struct{ Message string }

func (e *RaisedError) Error() string { return "the template raised: " + e.Message }

// Render runs the template with the variables, which it does not change.
func (t *Template) Render(vars map[string]any) (out string, err error) {
	s := &state{top: &scope{vars: maps.Clone(vars)}}
	if s.top.vars == nil {
		s.top.vars = map[string]any{}
	}
	s.out = &strings.Builder{}
	defer func() {
		if r := recover(); r != nil {
			out, err = "", recovered(r)
		}
	}()
	runAll(t.body, s, s.top)
	return s.out.String(), nil
}

type state struct {
	top   *scope
	out   *strings.Builder
	size  int
	steps int
	bytes int // made so far, see maxMemory
	calls int
}

// scope holds the names set in a loop's body or a macro; reading falls through
// to the outer ones.
type scope struct {
	vars  map[string]any
	outer *scope
}

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

type (
	// function is callable from a template.
	function func(s *state, line int, args []any, kw map[string]any) any
	// method is a function found as an attribute of a value.
	method = function
)

func (s *state) step(line int) {
	if s.steps++; s.steps > maxSteps {
		failAt(line, "more than %d steps", maxSteps)
	}
}

// spend counts work that is more than a step, before it is done.
func (s *state) spend(line, steps int) {
	if s.steps += steps; s.steps > maxSteps {
		failAt(line, "more than %d steps", maxSteps)
	}
}

// alloc counts memory, where it can be before it is taken.
func (s *state) alloc(line, bytes int) {
	if s.bytes += bytes; s.bytes > maxMemory {
		failAt(line, "more than %d bytes of values", maxMemory)
	}
}

// made counts the memory of a value that a function or operator returns.
func (s *state) made(line int, v any) any {
	switch v := v.(type) {
	case string:
		s.alloc(line, len(v))
	case []any:
		s.alloc(line, listEntry*len(v))
	case map[string]any:
		s.alloc(line, dictEntry*len(v))
	}
	return v
}

// weigh counts the size of a value that is gone through as a whole.
func (s *state) weigh(line int, v any) {
	switch v := v.(type) {
	case string:
		s.spend(line, len(v)/64)
	case []any:
		s.spend(line, len(v)/16)
	case map[string]any:
		s.spend(line, len(v)/16)
	}
}

func (s *state) write(line int, text string) {
	if s.size += len(text); s.size > maxOutput {
		failAt(line, "more than %d bytes of output", maxOutput)
	}
	s.out.WriteString(text)
}

// capture runs statements and returns their output.
func (s *state) capture(body []stmt, sc *scope) string {
	outer := s.out
	s.out = &strings.Builder{}
	runAll(body, s, sc)
	text := s.out.String()
	s.out = outer
	return text
}

func runAll(list []stmt, s *state, sc *scope) control {
	for _, st := range list {
		s.step(0)
		if c := st.run(s, sc); c != proceed {
			return c
		}
	}
	return proceed
}

func (d dataStmt) run(s *state, _ *scope) control {
	s.write(0, d.text)
	return proceed
}

func (o outputStmt) run(s *state, sc *scope) control {
	s.write(o.line, text(o.line, o.value.eval(s, sc)))
	return proceed
}

func (i ifStmt) run(s *state, sc *scope) control {
	if truth(i.cond.eval(s, sc)) {
		return runAll(i.then, s, sc)
	}
	return runAll(i.other, s, sc)
}

func (b blockStmt) run(s *state, sc *scope) control { return runAll(b.body, s, sc) }

func (c controlStmt) run(*state, *scope) control { return c.what }

func (x setStmt) run(s *state, sc *scope) control {
	var v any
	if x.value != nil {
		v = x.value.eval(s, sc)
	} else {
		s.alloc(x.line, scopeSize)
		v = s.capture(x.body, &scope{map[string]any{}, sc})
	}
	if x.attr == "" {
		sc.vars[x.name] = v
		return proceed
	}
	target, _ := sc.get(x.name)
	ns, ok := target.(namespace)
	if !ok {
		failAt(x.line, "%s is not a namespace", x.name)
	}
	ns[x.attr] = v
	return proceed
}

func (f forStmt) run(s *state, sc *scope) control {
	list := f.list.eval(s, sc)
	s.weigh(f.line, list)
	items := s.iterate(f.line, list)
	if f.where != nil {
		var kept []any
		for _, item := range items {
			s.step(f.line)
			s.alloc(f.line, scopeSize)
			inner := &scope{map[string]any{}, sc}
			f.bind(s, inner, item)
			if truth(f.where.eval(s, inner)) {
				kept = append(kept, item)
			}
		}
		items = kept
	}
	if len(items) == 0 {
		return runAll(f.other, s, sc)
	}
	for i, item := range items {
		s.step(f.line)
		s.alloc(f.line, loopSize)
		inner := &scope{map[string]any{"loop": loopAt(items, i)}, sc}
		f.bind(s, inner, item)
		if runAll(f.body, s, inner) == breakLoop {
			break
		}
	}
	return proceed
}

func (f forStmt) bind(s *state, sc *scope, item any) {
	if len(f.names) == 1 {
		sc.vars[f.names[0]] = item
		return
	}
	parts := s.iterate(f.line, item)
	if len(parts) != len(f.names) {
		failAt(f.line, "%d values for %d names", len(parts), len(f.names))
	}
	for i, name := range f.names {
		sc.vars[name] = parts[i]
	}
}

func loopAt(items []any, i int) namespace {
	n := len(items)
	loop := namespace{
		"index": i + 1, "index0": i, "revindex": n - i, "revindex0": n - i - 1,
		"first": i == 0, "last": i == n-1, "length": n,
	}
	if i > 0 {
		loop["previtem"] = items[i-1]
	}
	if i < n-1 {
		loop["nextitem"] = items[i+1]
	}
	return loop
}

func (m macroStmt) run(s *state, sc *scope) control {
	s.alloc(0, scopeSize)
	sc.vars[m.name] = function(func(s *state, line int, args []any, kw map[string]any) any {
		if s.calls++; s.calls > maxCalls {
			failAt(line, "macros call each other more than %d deep", maxCalls)
		}
		defer func() { s.calls-- }()
		s.alloc(line, scopeSize)
		inner := &scope{map[string]any{}, sc}
		if len(args) > len(m.params) {
			failAt(line, "macro %s takes %d arguments, found %d", m.name, len(m.params), len(args))
		}
		for name := range kw {
			if !contains(m.params, name) {
				failAt(line, "macro %s has no parameter %s", m.name, name)
			}
		}
		for i, name := range m.params {
			switch v, ok := kw[name]; {
			case i < len(args):
				inner.vars[name] = args[i]
			case ok:
				inner.vars[name] = v
			case m.defaults[name] != nil:
				inner.vars[name] = m.defaults[name].eval(s, inner)
			default:
				inner.vars[name] = undefined{name}
			}
		}
		return s.capture(m.body, inner)
	})
	return proceed
}

func contains(list []string, s string) bool {
	for _, have := range list {
		if have == s {
			return true
		}
	}
	return false
}
