// Package jsontext decodes JSON that others wrote, and encodes JSON with readable tags.
// encoding/json replaces bytes that are not UTF-8, and escapes of half a character, by U+FFFD
// without an error; here they are refused.
package jsontext

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

const byteOrderMark = "\xef\xbb\xbf"

// Unmarshal is json.Unmarshal for a whole text. It skips a byte order mark at the
// beginning, and refuses text that Check refuses.
func Unmarshal(raw []byte, into any) error {
	if err := Check(raw); err != nil {
		return err
	}
	return json.Unmarshal(bytes.TrimPrefix(raw, []byte(byteOrderMark)), into)
}

// Check returns an error that names line and byte, both counted from 1, if the text is not
// UTF-8 or has an escape of one half of a surrogate pair, such as \ud800. It does not check
// that the text is JSON.
func Check(raw []byte) error {
	at, wrong := fault(raw)
	if at < 0 {
		return nil
	}
	line := 1 + bytes.Count(raw[:at], []byte("\n"))
	return fmt.Errorf("line %d, byte %d: %s", line, at-bytes.LastIndexByte(raw[:at], '\n'), wrong)
}

// UnmarshalLine is Unmarshal for line n of a file, counted from 1. Its error names only the
// byte; the caller names the line.
func UnmarshalLine(text []byte, n int, into any) error {
	if at, wrong := fault(text); at >= 0 {
		return fmt.Errorf("byte %d: %s", at+1, wrong)
	}
	if n == 1 {
		text = bytes.TrimPrefix(text, []byte(byteOrderMark))
	}
	return json.Unmarshal(text, into)
}

// Text decodes a JSON string, without white space around it; ok is false for other JSON. Bytes that are not UTF-8 are
// read as U+FFFD.
func Text(raw []byte) (s string, ok bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	special := func(c byte) bool { return c < ' ' || c == '"' || c == '\\' }
	inner := raw[1 : len(raw)-1]
	if raw[len(raw)-1] == '"' && utf8.Valid(inner) && !slices.ContainsFunc(inner, special) {
		return string(inner), true // in a tenth of the time
	}
	err := json.Unmarshal(raw, &s)
	return s, err == nil
}

// Append appends a value as JSON without escapes of <, > and &.
func Append(dst []byte, v any) ([]byte, error) {
	b := bytes.NewBuffer(dst)
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// Quote returns a text in JSON.
func Quote(text string) string {
	out, _ := Append(nil, text) // a text cannot fail
	return string(out)
}

// Write writes a value as indented JSON with a line end, without escapes of <, > and &.
func Write(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// fault returns where the first fault is and what it is; -1 if there is none.
func fault(raw []byte) (at int, wrong string) {
	if !utf8.Valid(raw) {
		for i := 0; i < len(raw); {
			r, n := utf8.DecodeRune(raw[i:])
			if r == utf8.RuneError && n == 1 {
				return i, fmt.Sprintf("0x%02x is not UTF-8", raw[i])
			}
			i += n
		}
	}
	for i := 0; ; {
		next := bytes.IndexByte(raw[i:], '\\')
		if next < 0 {
			return -1, ""
		}
		i += next
		r, n := escape(raw[i:])
		if utf16.IsSurrogate(r) {
			second, m := escape(raw[i+n:])
			if utf16.DecodeRune(r, second) == utf8.RuneError {
				return i, fmt.Sprintf("%s is half of a surrogate pair, without the other half", raw[i:i+n])
			}
			n += m
		}
		i = min(i+n, len(raw))
	}
}

// escape returns the code unit of an escape \u and its length; of any other text 0 and 2.
func escape(raw []byte) (rune, int) {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return 0, 2
	}
	v, err := strconv.ParseUint(string(raw[2:6]), 16, 16)
	if err != nil {
		return 0, 2
	}
	return rune(v), 6
}
