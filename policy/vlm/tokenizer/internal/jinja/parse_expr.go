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
	list := listExpr{[]expr{first}}
	for p.accept(",") {
		if p.peek().kind == tokClose {
			break
		}
		list.items = append(list.items, p.expression())
	}
	return list
}

// expression parses a conditional expression or a simpler one.
func (p *parser) expression() expr {
	p.enter()
	defer p.leave()
	e := p.or()
	for p.accept("if") {
		c := condExpr{cond: p.or(), then: e}
		if p.accept("else") {
			c.other = p.expression()
		}
		e = c
	}
	return e
}

// leftToRight parses operands between operators of the same precedence.
func (p *parser) leftToRight(operand func() expr, ops ...string) expr {
	e := operand()
	for slices.ContainsFunc(ops, p.is) {
		t := p.next()
		e = binaryExpr{t.text, e, operand(), t.line}
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
		line := p.next().line
		return unaryExpr{"not", p.not(), line}
	}
	return p.comparison()
}

func (p *parser) comparison() expr {
	c := compareExpr{first: p.sum(), line: p.peek().line}
	for {
		op := p.peek().text
		switch {
		case p.is("==") || p.is("!=") || p.is("<") || p.is(">") || p.is("<=") || p.is(">=") || p.is("in"):
			p.pos++
		case p.is("not") && p.tokens[p.pos+1].text == "in":
			p.pos += 2
			op = "not in"
		default:
			if len(c.ops) == 0 {
				return c.first
			}
			return c
		}
		c.ops = append(c.ops, op)
		c.rest = append(c.rest, p.sum())
	}
}

func (p *parser) unary() expr { return p.filters(p.signed()) }

// signed parses an operand with its signs, which bind tighter than filters and tests.
func (p *parser) signed() expr {
	if p.is("-") || p.is("+") {
		p.enter()
		defer p.leave()
		t := p.next()
		return unaryExpr{t.text, p.signed(), t.line}
	}
	return p.postfix(p.primary())
}

// filters parses filters and tests, which bind tighter than operators between operands.
func (p *parser) filters(e expr) expr {
	for {
		line := p.peek().line
		switch {
		case p.accept("|"):
			f := filterExpr{of: e, name: p.name(), line: line}
			if p.accept("(") {
				f.args, f.kw = p.arguments()
			}
			e = f
		case p.accept("is"):
			t := testExpr{of: e, line: line, negate: p.accept("not")}
			t.name = p.name()
			if p.accept("(") {
				t.args, _ = p.arguments()
			} else if k := p.peek().kind; k == tokString || k == tokInt || k == tokFloat {
				t.args = []expr{p.postfix(p.primary())}
			}
			e = t
		default:
			return e
		}
	}
}

func (p *parser) postfix(e expr) expr {
	for {
		line := p.peek().line
		switch {
		case p.accept("."):
			if t := p.peek(); t.kind == tokInt {
				p.fail("attribute %q is not supported", t.text)
			}
			e = attrExpr{e, p.name(), line}
		case p.accept("["):
			e = p.subscript(e, line)
		case p.accept("("):
			args, kw := p.arguments()
			e = callExpr{e, args, kw, line}
		default:
			return e
		}
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
		return sliceExpr{of, parts[0], parts[1], parts[2], line}
	}
	if parts[0] == nil {
		p.fail("empty index")
	}
	return indexExpr{of, parts[0], line}
}

// arguments parses up to the closing parenthesis.
func (p *parser) arguments() (args []expr, kw map[string]expr) {
	kw = map[string]expr{}
	for !p.accept(")") {
		if p.peek().kind == tokName && p.tokens[p.pos+1].kind == tokOp && p.tokens[p.pos+1].text == "=" {
			name := p.name()
			p.pos++
			kw[name] = p.expression()
		} else {
			args = append(args, p.expression())
		}
		if !p.is(")") {
			p.expect(",")
		}
	}
	return args, kw
}

func (p *parser) primary() expr {
	t := p.next()
	switch t.kind {
	case tokString:
		s := t.text
		for p.peek().kind == tokString { // adjacent strings are concatenated
			s += p.next().text
		}
		return litExpr{s}
	case tokInt:
		v, err := strconv.Atoi(t.text)
		if err != nil {
			failAt(t.line, "number %s is too large", t.text)
		}
		return litExpr{v}
	case tokFloat:
		v, _ := strconv.ParseFloat(t.text, 64) // cannot fail: digits, a point and digits
		return litExpr{v}
	case tokName:
		switch t.text {
		case "true", "True":
			return litExpr{true}
		case "false", "False":
			return litExpr{false}
		case "none", "None":
			return litExpr{nil}
		}
		p.names[t.text] = true
		return nameExpr{t.text}
	case tokOp:
		switch t.text {
		case "(":
			return p.parenthesis()
		case "[":
			return listExpr{p.sequence("]")}
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
	return listExpr{append([]expr{e}, p.sequence(")")...)}
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
	var d dictExpr
	for !p.accept("}") {
		d.keys = append(d.keys, p.expression())
		p.expect(":")
		d.values = append(d.values, p.expression())
		if !p.is("}") {
			p.expect(",")
		}
	}
	return d
}
