// Package term detects terminals, and keeps control characters of foreign text from them.
package term

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// IsTerminal reports whether w is a terminal, or a Writer to one.
func IsTerminal(w any) bool {
	if s, ok := w.(*Writer); ok {
		w = s.w
	}
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Writer escapes the control characters of what it writes, as Escape does. It is safe for
// concurrent use.
type Writer struct {
	w io.Writer

	mu   sync.Mutex
	tail []byte // begin of a character whose rest is in a later Write
}

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write implements io.Writer. It keeps the bytes of an incomplete last character until the
// next call.
func (s *Writer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := append(s.tail, p...)
	whole := len(text)
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if at := len(text) - n; utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				whole = at
			}
			break
		}
	}
	s.tail = append([]byte(nil), text[whole:]...)
	if _, err := io.WriteString(s.w, Escape(string(text[:whole]))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Raw returns the writer below a Writer, and any other writer unchanged: for a program's own
// control sequences.
func Raw(w io.Writer) io.Writer {
	if s, ok := w.(*Writer); ok {
		return s.w
	}
	return w
}

// Escape replaces control characters, except for tabs and ends of lines, and bytes that are
// not UTF-8, by escapes of Go: a terminal would obey them.
func Escape(text string) string {
	clean := func(r rune) bool { return r == '\n' || r == '\t' || !unicode.IsControl(r) }
	if utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !clean(r) }) < 0 {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && n == 1, r < utf8.RuneSelf && !clean(r):
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case !clean(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(text[:n])
		}
		text = text[n:]
	}
	return b.String()
}
