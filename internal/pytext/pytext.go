// Package pytext treats white space as Python does: it includes the four ASCII separators that package unicode leaves
// out. What models write is read as the original systems, in Python, read it.
package pytext

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Space is str.isspace, which \s matches, too.
func Space(r rune) bool {
	switch {
	case r <= ' ':
		return r == ' ' || r >= '\t' && r <= '\r' || r >= 0x1c && r <= 0x1f
	case r < utf8.RuneSelf:
		return false
	}
	return unicode.IsSpace(r)
}

// Strip is str.strip: it removes white space at both ends.
func Strip(s string) string { return strings.TrimFunc(s, Space) }
