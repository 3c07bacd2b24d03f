package jinja

import (
	"slices"
	"strconv"
)

// tuple parses an expression, or several separated by commas.
func (p *parser) tuple() expr {
	first := p.expression()
	if !p.is(",") {
		return first
	}
	items := []expr{first}
	for p.accept(",") {
		if p.peek().kind == tokClose {
			break
		}
		items = append(items, p.expression())
	}
	return listOf(items)
}

// expression parses a conditional expression or a simpler one.
func (p *parser) expression() expr {
	p.enter()
	defer p.leave()
	e := p.or()
	for p.accept("if") {
		then, cond, other := e, p.or(), constant(undefined{"condition without else"})
		if p.accept("else") {
			other = p.expression()
		}
		e = func(s *scope) any {
			if isTrue(cond(s)) {
				return then(s)
			}
			return other(s)
		}
	}
	return e
}

// leftToRight parses operands between operators of the same precedence.
func (p *parser) leftToRight(operand func() expr, ops ...string) expr {
	e := operand()
	for slices.ContainsFunc(ops, p.is) {
		t := p.next()
		e = binary(t, e, operand())
	}
	return e
}

func (p *parser) or() expr      { return p.leftToRight(p.and, "or") }
func (p *parser) and() expr     { return p.leftToRight(p.not, "and") }
func (p *parser) sum() expr     { return p.leftToRight(p.concat, "+", "-") }
func (p *parser) concat() expr  { return p.leftToRight(p.product, "~") }
func (p *parser) product() expr { return p.leftToRight(p.unary, "*", "/", "//", "%") }

func (p *parser) not() expr {
	if p.is("not") {
		p.enter()
		defer p.leave()
		p.pos++
		of := p.not()
		return func(s *scope) any { return !isTrue(of(s)) }
	}
	return p.comparison()
}

func (p *parser) comparison() expr {
	first, line := p.sum(), p.peek().line
	var ops []string
	var rest []expr
	for {
		op := p.peek().text
		switch {
		case p.is("==") || p.is("!=") || p.is("<") || p.is(">") || p.is("<=") || p.is(">=") || p.is("in"):
			p.pos++
		case p.is("not") && p.tokens[p.pos+1].text == "in":
			p.pos += 2
			op = "not in"
		case len(ops) == 0:
			return first
		default:
			return comparisons(first, ops, rest, line)
		}
		ops, rest = append(ops, op), append(rest, p.sum())
	}
}

func (p *parser) unary() expr { return p.filters(p.signed()) }

// signed parses an operand with its signs, which bind tighter than filters and tests.
func (p *parser) signed() expr {
	if p.is("-") || p.is("+") {
		p.enter()
		defer p.leave()
		return signed(p.next(), p.signed())
	}
	return p.operand()
}

// filters parses filters and tests, which bind tighter than operators between operands.
func (p *parser) filters(e expr) expr {
	for {
		line := p.peek().line
		switch {
		case p.accept("|"):
			name, with := p.name(), arguments{line: line}
			if p.accept("(") {
				with = p.arguments(line)
			}
			e = filterOf(e, name, with)
		case p.accept("is"):
			negate, name, with := p.accept("not"), p.name(), arguments{line: line}
			if p.accept("(") {
				with = p.arguments(line)
			} else if k := p.peek().kind; k == tokString || k == tokInt || k == tokFloat {
				with.list = []expr{p.operand()}
			}
			e = testOf(e, name, with, negate)
		default:
			return e
		}
	}
}

// operand parses an operand with its attributes, subscripts and calls.
func (p *parser) operand() expr {
	name := "it" // of what is called
	if t := p.peek(); t.kind == tokName {
		name = t.text
	}
	for e := p.primary(); ; {
		of, line := e, p.peek().line
		switch {
		case p.accept("."):
			if t := p.peek(); t.kind == tokInt {
				p.fail("attribute %q is not supported", t.text)
			}
			attr := p.name()
			name = "." + attr
			e = func(s *scope) any {
				of := of(s)
				s.line = line
				return s.attribute(of, attr)
			}
			continue
		case p.accept("["):
			e = p.subscript(of, line)
		case p.accept("("):
			e = callOf(of, name, p.arguments(line))
		default:
			return e
		}
		name = "it"
	}
}

func (p *parser) subscript(of expr, line int) expr {
	var parts [3]expr
	colons := 0
	for !p.accept("]") {
		if p.accept(":") {
			if colons++; colons > 2 {
				p.fail("too many colons")
			}
			continue
		}
		parts[colons] = p.expression()
		if !p.is("]") && !p.is(":") {
			p.fail("found %q, want \"]\"", p.peek().text)
		}
	}
	if colons > 0 {
		return sliceOf(of, parts, line)
	}
	if parts[0] == nil {
		p.fail("empty index")
	}
	return func(s *scope) any {
		of, at := of(s), parts[0](s)
		s.line = line
		return s.index(of, at)
	}
}

// arguments parses up to the closing parenthesis of a call in a line.
func (p *parser) arguments(line int) arguments {
	a := arguments{named: map[string]expr{}, line: line}
	for !p.accept(")") {
		if p.peek().kind == tokName && p.tokens[p.pos+1].kind == tokOp && p.tokens[p.pos+1].text == "=" {
			name := p.name()
			p.pos++
			a.named[name] = p.expression()
		} else {
			a.list = append(a.list, p.expression())
		}
		if !p.is(")") {
			p.expect(",")
		}
	}
	return a
}

func (p *parser) primary() expr {
	t := p.next()
	switch t.kind {
	case tokString:
		s := t.text
		for p.peek().kind == tokString { // adjacent strings are concatenated
			s += p.next().text
		}
		return constant(s)
	case tokInt:
		v, err := strconv.Atoi(t.text)
		if err != nil {
			failAt(t.line, "number %s is too large", t.text)
		}
		return constant(v)
	case tokFloat:
		v, _ := strconv.ParseFloat(t.text, 64) // cannot fail: digits, a point and digits
		return constant(v)
	case tokName:
		switch t.text {
		case "true", "True":
			return constant(true)
		case "false", "False":
			return constant(false)
		case "none", "None":
			return constant(nil)
		}
		p.names[t.text] = true
		return variable(t.text)
	case tokOp:
		switch t.text {
		case "(":
			return p.parenthesis()
		case "[":
			return listOf(p.sequence("]"))
		case "{":
			return p.dict()
		}
	}
	failAt(t.line, "unexpected %q", t.text)
	return nil
}

func (p *parser) parenthesis() expr {
	e := p.expression()
	if p.accept(")") {
		return e
	}
	p.expect(",")
	return listOf(append([]expr{e}, p.sequence(")")...))
}

// sequence parses expressions up to the closing bracket.
func (p *parser) sequence(end string) []expr {
	var items []expr
	for !p.accept(end) {
		items = append(items, p.expression())
		if !p.is(end) {
			p.expect(",")
		}
	}
	return items
}

func (p *parser) dict() expr {
	var keys, values []expr
	for !p.accept("}") {
		keys = append(keys, p.expression())
		p.expect(":")
		values = append(values, p.expression())
		if !p.is("}") {
			p.expect(",")
		}
	}
	return dictOf(keys, values)
}
