package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"vagen/internal/pytext"
)

type tokenKind uint8

const (
	tokEOF    tokenKind = iota
	tokData             // text between tags
	tokOpen             // {% or {{
	tokClose            // %} or }}
	tokName             // names and keywords
	tokString           // token.text is the value
	tokInt
	tokFloat
	tokOp // operators and punctuation
)

type token struct {
	kind tokenKind
	text string
	line int
}

type lexer struct {
	src       string
	pos       int
	lineStart bool // pos is at the start of a line
	counted   int  // position up to which newlines are counted
	newlines  int
	tokens    []token
}

// lex splits a template into tokens. It applies white space control: a dash in a tag
// removes all white space on that side of it. Otherwise the newline directly after a
// block or comment, and blanks before it on the same line, are removed.
func lex(src string) ([]token, error) {
	src = strings.ReplaceAll(strings.ReplaceAll(src, "\r\n", "\n"), "\r", "\n")
	l := &lexer{src: strings.TrimSuffix(src, "\n"), lineStart: true}
	for l.pos < len(l.src) {
		if err := l.next(); err != nil {
			return nil, err
		}
	}
	l.emit(tokEOF, "")
	return l.tokens, nil
}

func (l *lexer) emit(kind tokenKind, text string) {
	l.tokens = append(l.tokens, token{kind, text, l.line()})
}

// line returns the line of pos. It counts on from the last call, since pos only grows.
func (l *lexer) line() int {
	l.newlines += strings.Count(l.src[l.counted:l.pos], "\n")
	l.counted = l.pos
	return 1 + l.newlines
}

func (l *lexer) errorf(format string, args ...any) error {
	return fmt.Errorf("line %d: %s", l.line(), fmt.Sprintf(format, args...))
}

// next consumes the text up to the next tag, and that tag.
func (l *lexer) next() error {
	rest := l.src[l.pos:]
	at := -1
	for i := 0; i+1 < len(rest); i++ {
		if rest[i] == '{' && strings.IndexByte("{%#", rest[i+1]) >= 0 {
			at = i
			break
		}
	}
	if at < 0 {
		l.data(rest)
		l.pos = len(l.src)
		return nil
	}
	open := rest[at : at+2]
	text := rest[:at]
	sign := byte(0)
	if at+2 < len(rest) && (rest[at+2] == '-' || rest[at+2] == '+') {
		sign = rest[at+2]
	}
	switch {
	case sign == '-':
		text = strings.TrimRightFunc(text, pytext.Space)
	case sign != '+' && open != "{{":
		if i := strings.LastIndexByte(text, '\n') + 1; i > 0 || l.lineStart {
			if pytext.Strip(text[i:]) == "" {
				text = text[:i]
			}
		}
	}
	l.data(text)
	l.pos += at + 2
	if sign != 0 {
		l.pos++
	}
	if open == "{#" {
		end := strings.Index(l.src[l.pos:], "#}")
		if end < 0 {
			return l.errorf("a comment is not closed")
		}
		l.pos += end
		l.closeTag(end > 0 && l.src[l.pos-1] == '-', true)
		return nil
	}
	l.emit(tokOpen, open)
	return l.tag(open)
}

func (l *lexer) data(text string) {
	if text != "" {
		l.emit(tokData, text)
	}
}

// closeTag moves past the end of a tag and the white space that it removes.
func (l *lexer) closeTag(strip, block bool) {
	l.pos += 2
	rest := l.src[l.pos:]
	switch {
	case strip:
		l.pos += len(rest) - len(strings.TrimLeftFunc(rest, pytext.Space))
	case block && strings.HasPrefix(rest, "\n"):
		l.pos++
	}
	l.lineStart = l.src[l.pos-1] == '\n'
}

var operators = []string{"==", "!=", "<=", ">=", "//", "**"}

// tag consumes the inside of {{ }} or {% %}.
func (l *lexer) tag(open string) error {
	end := map[string]string{"{{": "}}", "{%": "%}"}[open]
	var brackets []byte // open brackets; inside them, "}}" is not the end of the tag
	for {
		rest := strings.TrimLeftFunc(l.src[l.pos:], pytext.Space)
		l.pos = len(l.src) - len(rest)
		if rest == "" {
			return l.errorf("%s is not closed", open)
		}
		sign := ""
		if rest[0] == '-' || rest[0] == '+' && open == "{%" {
			sign = rest[:1]
		}
		if len(brackets) == 0 && strings.HasPrefix(rest[len(sign):], end) {
			l.pos += len(sign)
			l.emit(tokClose, end)
			if sign == "+" {
				l.pos += 2
				l.lineStart = false
				return nil
			}
			l.closeTag(sign == "-", open == "{%")
			return nil
		}
		c := rest[0]
		switch {
		case c == '\'' || c == '"':
			if err := l.str(rest); err != nil {
				return err
			}
			continue
		case isNameByte(c) && (c < '0' || c > '9'):
			n := 1
			for n < len(rest) && isNameByte(rest[n]) {
				n++
			}
			l.consume(tokName, rest[:n])
			continue
		case c >= '0' && c <= '9':
			l.number(rest)
			continue
		}
		op := rest[:1]
		for _, two := range operators {
			if strings.HasPrefix(rest, two) {
				op = two
			}
		}
		switch op {
		case "(", "[", "{":
			brackets = append(brackets, op[0])
		case ")", "]", "}":
			if len(brackets) == 0 {
				return l.errorf("unexpected %q", op)
			}
			brackets = brackets[:len(brackets)-1]
		default:
			if !strings.Contains("+-*/%~|.,:=<>", op[:1]) && op != "!=" {
				return l.errorf("unexpected %q", op)
			}
		}
		l.consume(tokOp, op)
	}
}

func (l *lexer) consume(kind tokenKind, text string) {
	l.emit(kind, text)
	l.pos += len(text)
}

func isNameByte(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

func (l *lexer) number(rest string) {
	n, kind := 0, tokInt
	for n < len(rest) && (rest[n] >= '0' && rest[n] <= '9' || kind == tokInt && rest[n] == '.' && n+1 < len(rest) &&
		rest[n+1] >= '0' && rest[n+1] <= '9') {
		if rest[n] == '.' {
			kind = tokFloat
		}
		n++
	}
	l.consume(kind, rest[:n])
}

// str consumes a string literal with Python's escapes.
func (l *lexer) str(rest string) error {
	var b strings.Builder
	for i := 1; i < len(rest); {
		c := rest[i]
		switch {
		case c == rest[0]:
			l.emit(tokString, b.String())
			l.pos += i + 1
			return nil
		case c != '\\' || i+1 == len(rest):
			b.WriteByte(c)
			i++
		default:
			n, err := escape(&b, rest[i+1:])
			if err != nil {
				return l.errorf("%v", err)
			}
			i += 1 + n
		}
	}
	return l.errorf("a string is not closed")
}

// escape decodes the escape sequence after a backslash and returns its length.
func escape(b *strings.Builder, s string) (int, error) {
	if i := strings.IndexByte("ntrabfv\\'\"\n", s[0]); i >= 0 {
		b.WriteString([]string{"\n", "\t", "\r", "\a", "\b", "\f", "\v", "\\", "'", "\"", ""}[i])
		return 1, nil
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[0]]
	if digits == 0 {
		if s[0] >= '0' && s[0] <= '7' || s[0] == 'N' {
			return 0, fmt.Errorf("the escape \\%c is not supported", s[0])
		}
		b.WriteByte('\\')
		return 0, nil
	}
	if len(s) <= digits {
		return 0, fmt.Errorf("the escape \\%c is incomplete", s[0])
	}
	v, err := strconv.ParseUint(s[1:1+digits], 16, 32)
	if err != nil || !utf8.ValidRune(rune(v)) {
		return 0, fmt.Errorf("the escape \\%s is not a character", s[:1+digits])
	}
	b.WriteRune(rune(v))
	return 1 + digits, nil
}
