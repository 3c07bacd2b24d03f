package reward

import (
	"strings"
	"unicode/utf8"

	"vagen/internal/pytext"
)

// aliases are the names that are searched for the sections of a malformed response,
// in this order, first as tags and then as labels.
var aliases = map[string][]string{
	SectionObservation: {perceptionTag, "observation"},
	SectionReasoning:   {"reasoning", "think", "thought"},
	SectionPrediction:  {"prediction"},
	SectionAnswer:      {answerTag, actionTag},
}

// recoverSection returns the content of a section of a malformed response: of the first
// block with one of its tags, else of the first line that starts with one of its
// names and a colon. Case is ignored. It returns "" if neither exists or the first
// match is empty.
func recoverSection(text, section string) string {
	for _, name := range aliases[section] {
		if content, ok := looseBlock(text, name); ok {
			return pytext.Strip(content)
		}
	}
	for _, name := range aliases[section] {
		if content, ok := labelled(text, name); ok {
			return pytext.Strip(content)
		}
	}
	return ""
}

// looseBlock finds the first block of a tag, in any case.
func looseBlock(text, tag string) (content string, ok bool) {
	_, start, ok := indexFold(text, 0, "<"+tag+">")
	if !ok {
		return "", false
	}
	end, _, ok := indexFold(text, start, "</"+tag+">")
	if !ok {
		return "", false
	}
	return text[start:end], true
}

// labelled finds the first line that starts with the label and a colon, and returns
// the rest of the line or, if that is blank, the next line that is not.
func labelled(text, label string) (content string, ok bool) {
	for at := 0; ; {
		at = skipSpace(text, at)
		if end, ok := prefixFold(text, at, label); ok {
			if colon := skipSpace(text, end); strings.HasPrefix(text[colon:], ":") {
				if content, ok := lineAfter(text, colon+1); ok {
					return content, true
				}
			}
		}
		i := strings.IndexByte(text[at:], '\n')
		if i < 0 {
			return "", false
		}
		at += i + 1
	}
}

// lineAfter returns the line of the first character at or after i that is not
// white space. When only white space is left, there is a line if that has
// anything but line ends.
func lineAfter(text string, i int) (string, bool) {
	start := skipSpace(text, i)
	if start == len(text) {
		return "", strings.Trim(text[i:], "\n") != ""
	}
	line, _, _ := strings.Cut(text[start:], "\n")
	return line, true
}

// indexFold finds the first place of an ASCII text at or after from, in any case,
// and returns where it starts and ends.
func indexFold(s string, from int, want string) (start, end int, ok bool) {
	for {
		i := strings.IndexByte(s[from:], want[0])
		if i < 0 {
			return 0, 0, false
		}
		start = from + i
		if end, ok = prefixFold(s, start, want); ok {
			return start, end, true
		}
		from = start + 1
	}
}

// prefixFold reports whether s has an ASCII text in lower case at byte i, in any
// case, and where that ends. As in Python's matching, four letters beyond ASCII
// count as i, k and s.
func prefixFold(s string, i int, want string) (end int, ok bool) {
	for k := range len(want) {
		if i >= len(s) {
			return 0, false
		}
		c, n := rune(s[i]), 1
		if c >= utf8.RuneSelf {
			c, n = utf8.DecodeRuneInString(s[i:])
		}
		switch {
		case c >= 'A' && c <= 'Z':
			c += 'a' - 'A'
		case c == dottedI, c == 'ı':
			c = 'i'
		case c == 'ſ':
			c = 's'
		case c == '\u212a': // the Kelvin sign
			c = 'k'
		}
		if c != rune(want[k]) {
			return 0, false
		}
		i += n
	}
	return i, true
}
