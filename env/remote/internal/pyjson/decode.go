package pyjson

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf16"
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

// Member returns the text of an object's member with the given name, the last one if
// there are several, without keeping other values. ok is false if data is not an
// object, the member is missing or not a text, or the JSON is malformed, for which
// Parse returns the error.
func Member(data []byte, name string) (text string, ok bool) {
	r := reader{data: data, only: name}
	v, err := r.value(0)
	members, _ := v.(map[string]any)
	text, ok = members[name].(string)
	return text, ok && err == nil
}

type reader struct {
	data   []byte
	at     int
	values int    // read so far
	only   string // the member of the whole that is kept; "" keeps all values
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
	if r.values++; r.values > MaxValues && r.only == "" {
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
	r.at++
	members := make(map[string]any)
	if r.space(); r.skipIf("}") {
		return members, nil
	}
	for {
		r.space()
		if r.peek() != '"' {
			return nil, r.fail("a quoted name is needed")
		}
		name, err := r.text()
		if err != nil {
			return nil, err
		}
		if r.space(); !r.skipIf(":") {
			return nil, r.fail("a colon is needed")
		}
		v, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		if r.only == "" || depth == 0 && name == r.only {
			members[name] = v
		}
		if r.space(); r.skipIf("}") {
			return members, nil
		}
		if !r.skipIf(",") {
			return nil, r.fail("a comma or the end of the object is needed")
		}
	}
}

func (r *reader) list(depth int) (any, error) {
	r.at++
	values := []any{}
	if r.space(); r.skipIf("]") {
		return values, nil
	}
	for {
		v, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		if r.only == "" {
			values = append(values, v)
		}
		if r.space(); r.skipIf("]") {
			return values, nil
		}
		if !r.skipIf(",") {
			return nil, r.fail("a comma or the end of the list is needed")
		}
	}
}

// number reads an optional sign, digits without leading zeros, and optionally a
// fraction and an exponent.
func (r *reader) number() (any, error) {
	start, whole := r.at, true
	r.skipIf("-")
	switch c := r.peek(); {
	case c == '0':
		r.at++
	case '1' <= c && c <= '9':
		r.digits()
	default:
		r.at = start
		return nil, r.fail("a value is needed")
	}
	if mark := r.at; r.skipIf(".") {
		if r.digits() == 0 {
			r.at = mark
			return nil, r.fail("a fraction needs digits")
		}
		whole = false
	}
	if mark := r.at; r.skipIf("e") || r.skipIf("E") {
		if !r.skipIf("+") {
			r.skipIf("-")
		}
		if r.digits() == 0 {
			r.at = mark
			return nil, r.fail("an exponent needs digits")
		}
		whole = false
	}
	text := string(r.data[start:r.at])
	if whole {
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return i, nil
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) { // a number that is too large is infinite, as in Python
		return nil, r.fail("bad number " + text)
	}
	return f, nil
}

func (r *reader) digits() (n int) {
	for c := r.peek(); '0' <= c && c <= '9'; c = r.peek() {
		r.at++
		n++
	}
	return n
}

func (r *reader) text() (string, error) {
	r.at++
	start := r.at
	for r.at < len(r.data) { // most texts have no escapes
		switch c := r.data[r.at]; {
		case c == '"':
			r.at++
			return string(r.data[start : r.at-1]), nil
		case c == '\\':
			return r.escaped(append(make([]byte, 0, 2*(r.at-start)+16), r.data[start:r.at]...))
		case c < ' ':
			return "", r.fail("a control character in a text")
		}
		r.at++
	}
	return "", r.fail("a text does not end")
}

// escaped reads the rest of a string after its first escape; dst has the part before.
func (r *reader) escaped(dst []byte) (string, error) {
	for r.at < len(r.data) {
		c := r.data[r.at]
		switch {
		case c == '"':
			r.at++
			return string(dst), nil
		case c < ' ':
			return "", r.fail("a control character in a text")
		case c != '\\':
			dst = append(dst, c)
			r.at++
			continue
		}
		r.at++
		e := r.peek()
		if plain, ok := escapes[e]; ok {
			dst = append(dst, plain)
			r.at++
			continue
		}
		if e != 'u' {
			return "", r.fail("unknown escape")
		}
		r.at++
		u, err := r.unit()
		if err != nil {
			return "", err
		}
		dst = utf8.AppendRune(dst, r.pair(u))
	}
	return "", r.fail("a text does not end")
}

var escapes = map[byte]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// unit reads four hexadecimal digits.
func (r *reader) unit() (rune, error) {
	if len(r.data)-r.at < 4 {
		return 0, r.fail("an escape needs four digits")
	}
	u, err := strconv.ParseUint(string(r.data[r.at:r.at+4]), 16, 16)
	if err != nil {
		return 0, r.fail("an escape needs four digits")
	}
	r.at += 4
	return rune(u), nil
}

// pair combines a surrogate with the one that follows. An unpaired surrogate is U+FFFD.
func (r *reader) pair(u rune) rune {
	if !utf16.IsSurrogate(u) {
		return u
	}
	mark := r.at
	if r.skipIf(`\u`) {
		if low, err := r.unit(); err == nil {
			if c := utf16.DecodeRune(u, low); c != utf8.RuneError {
				return c
			}
		}
	}
	r.at = mark
	return utf8.RuneError
}
