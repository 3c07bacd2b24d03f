// Package safeyaml reads untrusted YAML: it limits size, nesting and the expansion of
// aliases, so that a small text cannot exhaust time or memory. It refuses what parsers read
// differently: several documents, bytes that are not UTF-8, and numbers such as 010.
package safeyaml

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Limits of a YAML text.
const (
	MaxBytes  = 16 << 20
	MaxValues = 1 << 20 // after expansion of aliases
	MaxDepth  = 64      // nesting of values
)

// ErrLimit is wrapped by errors about texts beyond the limits.
var ErrLimit = errors.New("too large to read")

// Parse reads a text with at most one document. A byte order mark is skipped.
func Parse(data []byte, options ...parser.Option) (file *ast.File, err error) {
	defer func() { // the parser may panic on malformed input
		if p := recover(); p != nil {
			file, err = nil, fmt.Errorf("it cannot be parsed: %v", p)
		}
	}()
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("%w: it has at least %d bytes, %d are allowed", ErrLimit, len(data), MaxBytes)
	}
	data = bytes.TrimPrefix(data, mark)
	if err := plain(data); err != nil {
		return nil, err
	}
	if deep(data) {
		return nil, tooDeep()
	}
	if file, err = parser.ParseBytes(data, 0, options...); err != nil {
		return nil, err
	}
	c := counter{anchors: map[string]int{}}
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if _, err := c.count(doc.Body, 0); err != nil {
			return nil, err
		}
	}
	return file, nil
}

// Value decodes a text with one document; an empty text is nil.
func Value(data []byte) (v any, err error) {
	if _, err := Parse(data); err != nil {
		return nil, err
	}
	defer func() {
		if p := recover(); p != nil {
			v, err = nil, fmt.Errorf("it cannot be decoded: %v", p)
		}
	}()
	err = yaml.Unmarshal(bytes.TrimPrefix(data, mark), &v)
	return v, err
}

// mark is the byte order mark in UTF-8, which some editors write.
var mark = []byte("\xef\xbb\xbf")

// plain returns an error if a text is not UTF-8 or has several documents.
func plain(data []byte) error {
	number, begun, ended := 0, false, false
	for line := range bytes.Lines(data) {
		number++
		if !utf8.Valid(line) {
			at := 0
			for r, n := utf8.DecodeRune(line); r != utf8.RuneError || n > 1; r, n = utf8.DecodeRune(line[at:]) {
				at += n
			}
			return fmt.Errorf("line %d: byte %d is 0x%02x, which is not UTF-8", number, at+1, line[at])
		}
		text := bytes.TrimSpace(line)
		opens := marks(line, "---")
		switch {
		case marks(line, "..."):
			ended = begun
		case len(text) == 0, text[0] == '#', line[0] == '%' && !begun:
		case ended, opens && begun:
			return fmt.Errorf("line %d: a second document begins, must have one", number)
		default:
			begun = true
		}
	}
	return nil
}

// marks reports whether a line is a marker of documents, alone or before a value.
func marks(line []byte, marker string) bool {
	rest, ok := bytes.CutPrefix(line, []byte(marker))
	return ok && (len(rest) == 0 || bytes.IndexByte([]byte(" \t\r\n"), rest[0]) >= 0)
}

// octal matches integers that are of base 8 in YAML 1.1 and of base 10 in YAML 1.2.
var octal = regexp.MustCompile(`^[-+]?0[0-9_]+$`)

func tooDeep() error {
	return fmt.Errorf("%w: it is nested more than %d levels deep", ErrLimit, MaxDepth)
}

// deep reports whether a text is nested deeper than allowed, which could overflow the
// stack of the recursive parser. Brackets in quotes count, too; no ordinary text has
// that many.
func deep(data []byte) bool {
	open, marks := 0, 0
	for i, b := range data {
		switch b {
		case '[', '{':
			open++
		case ']', '}':
			open = max(open-1, 0)
		case '-', '?':
			if i+1 < len(data) && (data[i+1] == ' ' || data[i+1] == '\t') {
				marks++
			}
		case '\n':
			marks = 0
		}
		if open > MaxDepth || marks > MaxDepth {
			return true
		}
	}
	return false
}

// counter counts values after expansion of aliases.
type counter struct {
	anchors map[string]int // number of values of an anchor; 0 while they are counted
}

func (c *counter) count(n ast.Node, depth int) (int, error) {
	if depth > 2*MaxDepth { // a mapping's value is two nodes below it
		return 0, tooDeep()
	}
	total := 1
	add := func(below ...ast.Node) error {
		for _, b := range below {
			if b == nil {
				continue
			}
			k, err := c.count(b, depth+1)
			if err != nil {
				return err
			}
			if total += k; total > MaxValues {
				return fmt.Errorf("%w: it has more than %d values, including those repeated by aliases", ErrLimit, MaxValues)
			}
		}
		return nil
	}
	var err error
	switch n := n.(type) {
	case *ast.IntegerNode:
		if t := n.GetToken(); octal.MatchString(t.Value) {
			return 0, fmt.Errorf("line %d: %s is a number of base 8 in YAML 1.1 and of base 10 in YAML 1.2: "+
				"leave out the leading zeros, write 0o for base 8, or quotes around a text", t.Position.Line, t.Value)
		}
	case *ast.MappingNode:
		for _, pair := range n.Values {
			if err = add(pair.Key, pair.Value); err != nil {
				break
			}
		}
	case *ast.MappingValueNode:
		err = add(n.Key, n.Value)
	case *ast.MappingKeyNode:
		err = add(n.Value)
	case *ast.SequenceNode:
		err = add(n.Values...)
	case *ast.TagNode:
		err = add(n.Value)
	case *ast.AnchorNode:
		name := n.Name.String()
		c.anchors[name] = 0
		if err = add(n.Value); err == nil {
			c.anchors[name] = total
		}
	case *ast.AliasNode:
		size, known := c.anchors[n.Value.String()]
		if known && size == 0 {
			return 0, fmt.Errorf("the alias *%s refers to a value that contains it", n.Value)
		}
		total = max(size, 1)
	}
	return total, err
}
