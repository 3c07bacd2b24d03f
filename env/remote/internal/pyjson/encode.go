package pyjson

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Style defines how values are written. The zero value is json.dumps with ensure_ascii
// off: spaces after commas and colons, members in their order.
type Style struct {
	Compact bool // no spaces after commas and colons
	ASCII   bool // escape non-ASCII characters
	Sorted  bool // members sorted by name
}

// The styles of the two protocols.
var (
	Lite   = Style{}                                         // bodies of /connect and /call
	Plain  = Style{Compact: true}                            // other responses of the Lite service
	Legacy = Style{Compact: true, ASCII: true, Sorted: true} // everything of the legacy service
)

// Object is an object whose members have an order. The members of a map are sorted by
// name.
type Object interface {
	Len() int
	Member(i int) (name string, value any)
}

// Raw is a value that is already encoded, in the same style.
type Raw []byte

// maxDepth limits nesting when reading and writing. Writing a value that contains itself
// would not end otherwise.
const maxDepth = 100

// Append appends an encoded value to dst. Values are nil, booleans, numbers, strings,
// Raws, Objects, maps with string keys, slices, arrays and pointers to these. Bytes
// that are not UTF-8 become U+FFFD. If a value cannot be encoded, the error gives its
// path.
func Append(dst []byte, v any, s Style) ([]byte, error) {
	w := writer{dst: dst, s: s}
	if err := w.value(v, 0); err != nil {
		return dst, fmt.Errorf("pyjson: %w", err)
	}
	return w.dst, nil
}

type writer struct {
	dst []byte
	s   Style
}

var errDeep = fmt.Errorf("nested deeper than %d", maxDepth)

// value writes one value at a nesting depth.
func (w *writer) value(v any, depth int) error {
	if depth > maxDepth {
		return errDeep
	}
	switch v := v.(type) {
	case nil:
		w.dst = append(w.dst, "null"...)
	case string:
		w.text(v)
	case Raw:
		w.dst = append(w.dst, v...)
	case Object:
		if w.s.Sorted {
			return w.object(inOrder(v), depth)
		}
		return w.object(v, depth)
	case map[string]any:
		return w.object(ofMap(v), depth)
	case []any:
		return list(w, v, depth)
	case []string:
		return list(w, v, depth)
	default:
		return w.reflected(reflect.ValueOf(v), depth)
	}
	return nil
}

// members is an Object whose members can be sorted.
type members []member

type member struct {
	name  string
	value any
}

func (m members) Len() int                   { return len(m) }
func (m members) Member(i int) (string, any) { return m[i].name, m[i].value }

func (m members) sort() {
	slices.SortStableFunc(m, func(a, b member) int { return cmp.Compare(a.name, b.name) })
}

func ofMap(v map[string]any) members {
	m := make(members, 0, len(v))
	for name, value := range v {
		m = append(m, member{name, value})
	}
	m.sort()
	return m
}

// inOrder sorts members by name. Of several with the same name it keeps the last.
func inOrder(o Object) members {
	m := make(members, o.Len())
	for i := range m {
		m[i].name, m[i].value = o.Member(i)
	}
	m.sort()
	kept := m[:0]
	for i, one := range m {
		if i+1 == len(m) || m[i+1].name != one.name {
			kept = append(kept, one)
		}
	}
	return kept
}

func (w *writer) object(o Object, depth int) error {
	if depth == maxDepth {
		return errDeep
	}
	w.dst = append(w.dst, '{')
	for i := range o.Len() {
		if i > 0 {
			w.comma()
		}
		name, v := o.Member(i)
		w.text(name)
		w.dst = append(w.dst, ':')
		if !w.s.Compact {
			w.dst = append(w.dst, ' ')
		}
		if err := w.value(v, depth+1); err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
	}
	w.dst = append(w.dst, '}')
	return nil
}

func list[T any](w *writer, values []T, depth int) error {
	if depth == maxDepth {
		return errDeep
	}
	w.dst = append(w.dst, '[')
	for i, v := range values {
		if i > 0 {
			w.comma()
		}
		if err := w.value(v, depth+1); err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
	}
	w.dst = append(w.dst, ']')
	return nil
}

func (w *writer) comma() {
	w.dst = append(w.dst, ',')
	if !w.s.Compact {
		w.dst = append(w.dst, ' ')
	}
}

// reflected writes types that value has no case for, by reflection: numbers, named types,
// typed slices and maps, pointers.
func (w *writer) reflected(v reflect.Value, depth int) error {
	switch k := v.Kind(); {
	case k == reflect.Bool:
		w.dst = strconv.AppendBool(w.dst, v.Bool())
	case k == reflect.String:
		w.text(v.String())
	case v.CanInt():
		w.dst = strconv.AppendInt(w.dst, v.Int(), 10)
	case v.CanUint():
		w.dst = strconv.AppendUint(w.dst, v.Uint(), 10)
	case v.CanFloat():
		w.dst = AppendFloat(w.dst, v.Float())
	case k == reflect.Pointer || k == reflect.Interface:
		if v.IsNil() {
			w.dst = append(w.dst, "null"...)
			return nil
		}
		return w.value(v.Elem().Interface(), depth+1)
	case k == reflect.Slice || k == reflect.Array:
		values := make([]any, v.Len())
		for i := range values {
			values[i] = v.Index(i).Interface()
		}
		return list(w, values, depth)
	case k == reflect.Map && v.Type().Key().Kind() == reflect.String:
		values := make(map[string]any, v.Len())
		for it := v.MapRange(); it.Next(); {
			values[it.Key().String()] = it.Value().Interface()
		}
		return w.object(ofMap(values), depth)
	default:
		return fmt.Errorf("a value of type %s cannot be written as JSON", v.Type())
	}
	return nil
}

// AppendFloat appends a float as Python's repr writes it: the shortest digits that give
// the same number, with a decimal point or an exponent.
func AppendFloat(dst []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, "NaN"...)
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(f, -1):
		return append(dst, "-Infinity"...)
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.AppendFloat(dst, f, 'e', -1, 64)
	}
	if f == math.Trunc(f) {
		return strconv.AppendFloat(dst, f, 'f', 1, 64)
	}
	return strconv.AppendFloat(dst, f, 'f', -1, 64)
}

const hex = "0123456789abcdef"

func (w *writer) text(s string) {
	w.dst = append(w.dst, '"')
	for i := 0; i < len(s); {
		if n := plain(s[i:]); n > 0 {
			w.dst = append(w.dst, s[i:i+n]...)
			i += n
			continue
		}
		if c := s[i]; c < utf8.RuneSelf {
			w.char(c)
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		i += n
		switch {
		case !w.s.ASCII:
			w.dst = utf8.AppendRune(w.dst, r)
		case r > 0xffff:
			r -= 0x10000
			w.escape(0xd800 | r>>10)
			w.escape(0xdc00 | r&0x3ff)
		default:
			w.escape(r)
		}
	}
	w.dst = append(w.dst, '"')
}

// plain counts the bytes at the start of s that need no escape in any style.
func plain(s string) int {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return i
		}
	}
	return len(s)
}

// char writes one ASCII character of a text.
func (w *writer) char(c byte) {
	const special, letters = "\"\\\n\r\t\b\f", `"\nrtbf`
	switch i := strings.IndexByte(special, c); {
	case i >= 0:
		w.dst = append(w.dst, '\\', letters[i])
	case c < ' ', c == 0x7f && w.s.ASCII:
		w.escape(rune(c))
	default:
		w.dst = append(w.dst, c)
	}
}

func (w *writer) escape(u rune) {
	w.dst = append(w.dst, '\\', 'u', hex[u>>12&15], hex[u>>8&15], hex[u>>4&15], hex[u&15])
}
