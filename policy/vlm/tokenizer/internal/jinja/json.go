package jinja

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Dict is a dictionary as a variable of a template, with its keys in their order.
type Dict []Item

// Item is an entry of a Dict.
type Item struct {
	Key   string
	Value any
}

// decoded returns a value in which each json.RawMessage is replaced by what it encodes, and
// dictionaries by ones that templates read.
func (s *state) decoded(v any) any {
	switch v := v.(type) {
	case json.RawMessage:
		dec := json.NewDecoder(bytes.NewReader(v))
		dec.UseNumber()
		s.alloc(len(v))
		return s.decode(dec, 0)
	case []any:
		list := make([]any, len(v))
		for i, x := range v {
			list[i] = s.decoded(x)
		}
		return list
	case Dict:
		d := new(dict)
		for _, item := range v {
			d.set(item.Key, s.decoded(item.Value))
		}
		return d
	case map[string]any:
		d := new(dict)
		for _, k := range slices.Sorted(maps.Keys(v)) {
			d.set(k, s.decoded(v[k]))
		}
		return d
	}
	return v
}

// decode reads the next value.
func (s *state) decode(dec *json.Decoder, depth int) any {
	if depth > maxDepth {
		s.fail("a value is nested more than %d deep", maxDepth)
	}
	token, err := dec.Token()
	if err != nil {
		s.fail("a value is not JSON: %v", err)
	}
	switch v := token.(type) {
	case json.Number:
		if n, err := strconv.Atoi(v.String()); err == nil {
			return n
		}
		f, err := v.Float64()
		if err != nil || !strings.ContainsAny(v.String(), ".eE") {
			s.fail("the number %s is too large", v)
		}
		return f
	case json.Delim:
		if v == '[' {
			list := []any{}
			for dec.More() {
				s.alloc(listEntry)
				list = append(list, s.decode(dec, depth+1))
			}
			_, _ = dec.Token() // the end, or an error that the next token repeats
			return list
		}
		d := new(dict)
		for dec.More() {
			s.alloc(dictEntry)
			key, ok := s.decode(dec, depth+1).(string)
			if !ok {
				s.fail("a value is not JSON: a key is not a text")
			}
			d.set(key, s.decode(dec, depth+1))
		}
		_, _ = dec.Token()
		return d
	}
	return token
}

// toJSON is transformers' tojson: json.dumps with ensure_ascii=False, and with indent.
func toJSON(c call) any {
	for name := range c.kw {
		if name != "indent" && name != "ensure_ascii" {
			c.fail("tojson with %s is not supported", name)
		}
	}
	if len(c.args) > 0 || isTrue(c.kw["ensure_ascii"]) {
		c.fail("tojson with unnamed arguments or ensure_ascii is not supported")
	}
	w := jsonWriter{s: c.state}
	if indent, ok := c.kw["indent"]; ok && indent != nil {
		n, ok := indent.(int)
		if !ok || n < 0 || n > 16 {
			c.fail("tojson with this indent is not supported")
		}
		w.indent = "\n" + strings.Repeat(" ", n)
	}
	w.value(c.of, "\n")
	return w.out.String()
}

// jsonWriter writes a value as Python's json.dumps does.
type jsonWriter struct {
	s      *state
	indent string // a line break and one indentation; "" for a single line
	out    strings.Builder
}

func (w *jsonWriter) value(v any, lineBreak string) {
	w.s.countStep()
	switch v := v.(type) {
	case nil:
		w.out.WriteString("null")
	case bool:
		w.out.WriteString(strconv.FormatBool(v))
	case int:
		w.out.WriteString(strconv.Itoa(v))
	case float64:
		w.out.WriteString(pythonFloat(v))
	case string:
		w.text(v)
	case []any:
		w.items("[", "]", len(v), lineBreak, func(i int, inner string) { w.value(v[i], inner) })
	case *dict:
		w.items("{", "}", len(v.keys), lineBreak, func(i int, inner string) {
			w.text(w.s.toText(v.keys[i]))
			w.out.WriteString(": ")
			w.value(v.items[v.keys[i]], inner)
		})
	default:
		w.s.fail("tojson of %s is not supported", typeName(v))
	}
	if w.out.Len() > maxOutput {
		w.s.fail("more than %d bytes of output", maxOutput)
	}
}

func (w *jsonWriter) items(open, end string, n int, lineBreak string, item func(i int, inner string)) {
	w.out.WriteString(open)
	inner, separator := lineBreak, ", "
	if w.indent != "" {
		inner, separator = lineBreak+w.indent[1:], ","
	}
	for i := range n {
		if i > 0 {
			w.out.WriteString(separator)
		}
		if w.indent != "" {
			w.out.WriteString(inner)
		}
		item(i, inner)
	}
	if n > 0 && w.indent != "" {
		w.out.WriteString(lineBreak)
	}
	w.out.WriteString(end)
}

func (w *jsonWriter) text(s string) { quote(&w.out, s) }

// Quote returns a string as the filter tojson writes it.
func Quote(s string) string {
	var b strings.Builder
	quote(&b, s)
	return b.String()
}

// quote writes a string with Python's escapes.
func quote(b *strings.Builder, s string) {
	b.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c >= ' ':
			b.WriteByte(c)
		default:
			if short := strings.IndexByte("\b\f\n\r\t", c); short >= 0 {
				b.WriteByte('\\')
				b.WriteByte("bfnrt"[short])
			} else {
				fmt.Fprintf(b, "\\u%04x", c)
			}
		}
	}
	b.WriteByte('"')
}

// pythonFloat is the repr of a finite float.
func pythonFloat(v float64) string {
	if size := math.Abs(v); size != 0 && (size < 1e-4 || size >= 1e16) {
		return strconv.FormatFloat(v, 'e', -1, 64)
	}
	text := strconv.FormatFloat(v, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}
