package pyjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Errors of Parse wrap ErrSyntax if the text is not JSON, and ErrLimit if it has too
// many values.
var (
	ErrSyntax = errors.New("not JSON")
	ErrLimit  = fmt.Errorf("more than %d values", MaxValues)
)

// MaxValues limits the number of values in a text, nested ones included, because a
// value of a few bytes takes hundreds of bytes in memory.
const MaxValues = 1 << 18

// Parse reads one value: nil, bool, int64, float64, string, []any or
// map[string]any. It accepts the same texts as Python's json.loads: NaN and Infinity
// are numbers, and of several members with the same name the last one counts. Integers
// that do not fit 64 bits become floats. An unpaired surrogate becomes U+FFFD. Nesting
// is limited to a depth of 100, and the number of values to MaxValues. Errors give the
// byte offset.
func Parse(data []byte) (any, error) {
	if !utf8.Valid(data) {
		return nil, fmt.Errorf("pyjson: %w: the text is not UTF-8", ErrSyntax)
	}
	r := reader{data: data}
	v, err := r.value(0)
	if err == nil {
		r.space()
		if r.at < len(r.data) {
			err = r.fail("there is text after the value")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("pyjson: %w", err)
	}
	return v, nil
}

type reader struct {
	data   []byte
	at     int
	values int // read so far
}

func (r *reader) fail(what string) error {
	return fmt.Errorf("%w: at byte %d: %s", ErrSyntax, r.at, what)
}

func (r *reader) space() {
	for r.at < len(r.data) {
		switch r.data[r.at] {
		case ' ', '\t', '\n', '\r':
			r.at++
		default:
			return
		}
	}
}

// peek returns the next byte, 0 at the end.
func (r *reader) peek() byte {
	if r.at < len(r.data) {
		return r.data[r.at]
	}
	return 0
}

// skipIf skips s if it comes next, and reports whether it did.
func (r *reader) skipIf(s string) bool {
	if len(r.data)-r.at < len(s) || string(r.data[r.at:r.at+len(s)]) != s {
		return false
	}
	r.at += len(s)
	return true
}

// keywords are the values that are written as a keyword.
var keywords = []struct {
	text  string
	value any
}{
	{"null", nil}, {"true", true}, {"false", false},
	{"NaN", math.NaN()}, {"Infinity", math.Inf(1)}, {"-Infinity", math.Inf(-1)},
}

func (r *reader) value(depth int) (any, error) {
	r.space()
	if r.values++; r.values > MaxValues {
		return nil, ErrLimit
	}
	switch c := r.peek(); {
	case (c == '{' || c == '[') && depth == maxDepth:
		return nil, r.fail(errDeep.Error())
	case c == '{':
		return r.object(depth)
	case c == '[':
		return r.list(depth)
	case c == '"':
		return r.text()
	}
	for _, w := range keywords {
		if r.skipIf(w.text) {
			return w.value, nil
		}
	}
	return r.number()
}

func (r *reader) object(depth int) (any, error) {
	members := make(map[string]any)
	err := r.items("}", "object", func() error {
		r.space()
		if r.peek() != '"' {
			return r.fail("a quoted name is needed")
		}
		name, err := r.text()
		if err != nil {
			return err
		}
		if r.space(); !r.skipIf(":") {
			return r.fail("a colon is needed")
		}
		members[name], err = r.value(depth + 1)
		return err
	})
	return members, err
}

func (r *reader) list(depth int) (any, error) {
	values := []any{}
	err := r.items("]", "list", func() error {
		v, err := r.value(depth + 1)
		values = append(values, v)
		return err
	})
	return values, err
}

// items reads what stands between commas, up to the end of an object or a list.
func (r *reader) items(end, of string, item func() error) error {
	r.at++
	if r.space(); r.skipIf(end) {
		return nil
	}
	for {
		if err := item(); err != nil {
			return err
		}
		if r.space(); r.skipIf(end) {
			return nil
		}
		if !r.skipIf(",") {
			return r.fail("a comma or the end of the " + of + " is needed")
		}
	}
}

func (r *reader) number() (any, error) {
	start := r.at
	for strings.IndexByte("+-.0123456789eE", r.peek()) >= 0 {
		r.at++
	}
	if !json.Valid(r.data[start:r.at]) {
		r.at = start
		return nil, r.fail("a value is needed")
	}
	text := string(r.data[start:r.at])
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i, nil
	}
	f, _ := strconv.ParseFloat(text, 64) // a number that is too large is infinite, as in Python
	return f, nil
}

func (r *reader) text() (string, error) {
	start := r.at
	escaped := false
	for r.at++; r.at < len(r.data); r.at++ {
		switch c := r.data[r.at]; {
		case c == '"' && !escaped: // most texts have no escapes
			r.at++
			return string(r.data[start+1 : r.at-1]), nil
		case c == '"':
			r.at++
			var s string
			if err := json.Unmarshal(r.data[start:r.at], &s); err != nil {
				r.at = start
				return "", r.fail(err.Error())
			}
			return s, nil
		case c == '\\':
			escaped = true
			r.at++
		case c < ' ':
			return "", r.fail("a control character in a text")
		}
	}
	r.at = len(r.data)
	return "", r.fail("a text does not end")
}
