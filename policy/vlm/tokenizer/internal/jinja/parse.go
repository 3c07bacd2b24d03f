package jinja

import (
	"fmt"
	"slices"
)

const (
	// maxSource bounds the length of a template in bytes, and so the recursion depth of
	// evaluating a chain such as 1+1+…. Templates of released models have a few kilobytes.
	maxSource = 1 << 19
	// maxNesting bounds the nesting of statements and expressions.
	maxNesting = 100
)

// Template is a parsed template. It is safe for concurrent use.
type Template struct {
	body  []stmt
	names map[string]bool // that expressions read
}

// Reads reports whether an expression of the template reads a variable of that name.
func (t *Template) Reads(name string) bool { return t.names[name] }

// Parse reads a template. An error gives the line and what was found.
func Parse(src string) (t *Template, err error) {
	if len(src) > maxSource {
		return nil, fmt.Errorf("jinja: the template has %d bytes, at most %d are allowed", len(src), maxSource)
	}
	tokens, err := lex(src)
	if err != nil {
		return nil, fmt.Errorf("jinja: %w", err)
	}
	p := &parser{tokens: tokens, names: map[string]bool{}}
	defer func() {
		if r := recover(); r != nil {
			t, err = nil, errorOfPanic(r)
		}
	}()
	body := p.block()
	if p.peek().kind != tokEOF {
		p.fail("unexpected %q", p.tokens[p.pos+1].text)
	}
	return &Template{body, p.names}, nil
}

// templateError is the panic value of an error in a template. Parse and Render recover it.
type templateError struct{ err error }

// errorOfPanic returns the error of a failure, and an error for any other panic.
func errorOfPanic(r any) error {
	if f, ok := r.(templateError); ok {
		return fmt.Errorf("jinja: %w", f.err)
	}
	return fmt.Errorf("jinja: %v", r)
}

func failAt(line int, format string, args ...any) {
	panic(templateError{fmt.Errorf("line %d: %s", line, fmt.Sprintf(format, args...))})
}

type parser struct {
	tokens []token
	pos    int
	depth  int
	names  map[string]bool // read so far
}

func (p *parser) peek() token { return p.tokens[p.pos] }

func (p *parser) next() token {
	t := p.tokens[p.pos]
	if t.kind != tokEOF {
		p.pos++
	}
	return t
}

func (p *parser) fail(format string, args ...any) { failAt(p.peek().line, format, args...) }

// is reports whether the next token is the operator or keyword.
func (p *parser) is(text string) bool {
	t := p.peek()
	return (t.kind == tokOp || t.kind == tokName) && t.text == text
}

func (p *parser) accept(text string) bool {
	if p.is(text) {
		p.pos++
		return true
	}
	return false
}

func (p *parser) expect(text string) {
	if !p.accept(text) {
		p.fail("found %q, want %q", p.peek().text, text)
	}
}

func (p *parser) name() string {
	t := p.next()
	if t.kind != tokName {
		failAt(t.line, "found %q, want a name", t.text)
	}
	return t.text
}

func (p *parser) close() {
	if t := p.next(); t.kind != tokClose {
		failAt(t.line, "found %q, want the end of the tag", t.text)
	}
}

func (p *parser) enter() {
	if p.depth++; p.depth > maxNesting {
		p.fail("nesting is deeper than %d", maxNesting)
	}
}

func (p *parser) leave() { p.depth-- }

// block parses statements up to a tag that begins no statement, such as endif, and does
// not consume that tag.
func (p *parser) block() []stmt {
	p.enter()
	defer p.leave()
	var list []stmt
	for {
		t := p.peek()
		switch {
		case t.kind == tokEOF:
			return list
		case t.kind == tokData:
			p.pos++
			list = append(list, func(s *scope) control {
				s.write(t.text)
				return proceed
			})
		case t.text == "{{":
			p.pos++
			value := p.expression()
			list = append(list, func(s *scope) control {
				v := value(s)
				s.line = t.line
				s.write(s.toText(v))
				return proceed
			})
			p.close()
		default:
			word := p.tokens[p.pos+1]
			parse, ok := statements[word.text]
			if !ok {
				switch word.text {
				case "elif", "else", "endif", "endfor", "endset", "endmacro", "endgeneration":
					return list
				}
				failAt(t.line, "statement %q is not supported", word.text)
			}
			p.pos += 2
			list = append(list, parse(p))
		}
	}
}

// end consumes {% word %}.
func (p *parser) end(words ...string) string {
	p.pos++ // {%
	if p.pos >= len(p.tokens) {
		p.pos--
		p.fail("found the end of the template, want %q", words)
	}
	word := p.name()
	if slices.Contains(words, word) {
		return word
	}
	p.pos--
	p.fail("found %q, want one of %q", word, words)
	return ""
}

var statements map[string]func(*parser) stmt

func init() {
	statements = map[string]func(*parser) stmt{
		"if":       (*parser).ifStatement,
		"for":      (*parser).forStatement,
		"set":      (*parser).setStatement,
		"macro":    (*parser).macroStatement,
		"break":    jump(breakLoop),
		"continue": jump(continueLoop),
		"generation": func(p *parser) stmt { // runs its body
			body := p.body("endgeneration")
			return func(s *scope) control { return runAll(body, s) }
		},
	}
}

func jump(to control) func(*parser) stmt {
	return func(p *parser) stmt {
		p.close()
		return func(*scope) control { return to }
	}
}

// body parses from the end of a tag to {% end %}.
func (p *parser) body(end string) []stmt {
	p.close()
	list := p.block()
	p.end(end)
	p.close()
	return list
}

func (p *parser) ifStatement() stmt {
	p.enter()
	defer p.leave()
	cond := p.expression()
	p.close()
	then := p.block()
	var other []stmt
	switch p.end("elif", "else", "endif") {
	case "elif":
		other = []stmt{p.ifStatement()}
	case "else":
		other = p.body("endif")
	default:
		p.close()
	}
	return func(s *scope) control {
		if isTrue(cond(s)) {
			return runAll(then, s)
		}
		return runAll(other, s)
	}
}

func (p *parser) forStatement() stmt {
	f := loop{line: p.peek().line, names: []string{p.name()}}
	for p.accept(",") {
		f.names = append(f.names, p.name())
	}
	p.expect("in")
	f.list = p.or() // not expression, which would parse the loop's "if" as its own
	if p.accept("if") {
		f.where = p.expression()
	}
	p.close()
	f.body = p.block()
	if p.end("else", "endfor") == "else" {
		f.other = p.body("endfor")
	} else {
		p.close()
	}
	return f.run
}

func (p *parser) setStatement() stmt {
	line, name, attr := p.peek().line, p.name(), "" // attr is that of the namespace called name
	if p.accept(".") {
		attr = p.name()
	}
	var value expr
	if p.accept("=") {
		value = p.tuple()
		p.close()
	} else {
		body := p.body("endset")
		value = func(s *scope) any {
			s.alloc(scopeSize)
			return s.inner().capture(body)
		}
	}
	return func(s *scope) control {
		v := value(s)
		if attr == "" {
			s.vars[name] = v
			return proceed
		}
		s.line = line
		target, _ := s.get(name)
		ns, ok := target.(namespace)
		if !ok {
			s.fail("%s is not a namespace", name)
		}
		ns[attr] = v
		return proceed
	}
}

func (p *parser) macroStatement() stmt {
	m := macro{name: p.name(), defaults: map[string]expr{}}
	p.expect("(")
	for !p.accept(")") {
		name := p.name()
		m.params = append(m.params, name)
		if p.accept("=") {
			m.defaults[name] = p.expression()
		}
		if !p.is(")") {
			p.expect(",")
		}
	}
	m.body = p.body("endmacro")
	return m.run
}
