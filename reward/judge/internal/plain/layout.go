package plain

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Dashed reports whether the dash at i stands between words, as in "goal - above me". Within
// a word, before a number and at the start of a line it does not.
func Dashed(text string, i int) bool {
	if text[i] != '-' || i == 0 || text[i-1] != ' ' {
		return false
	}
	if before := strings.TrimRight(text[:i], " "); before == "" || before[len(before)-1] == '\n' {
		return false
	}
	for i < len(text) && text[i] == '-' {
		i++
	}
	return i+1 < len(text) && text[i] == ' ' && text[i+1] != '-'
}

// Parts reports whether the slash at i separates parts of a list such as "left: box / right:
// target".
func Parts(text string, i int) bool {
	if i == 0 || text[i-1] != ' ' || i+1 == len(text) || text[i+1] != ' ' {
		return false
	}
	label, _, ok := strings.Cut(text[i+2:min(len(text), i+24)], ":")
	return ok && !strings.ContainsAny(label, ",./;\n")
}

// ItemNumber reports whether the digits up to end number an item of a list, as in "2. a hole".
func ItemNumber(text string, i, end int) bool {
	if end+1 >= len(text) || text[end] != '.' && text[end] != ')' || text[end+1] != ' ' {
		return false
	}
	before := strings.TrimRight(text[:i], " ")
	return before == "" || before[len(before)-1] == '\n'
}

// Ellipsis returns the length of the points at i, if more than one stand there and words of
// the same line follow; 0 otherwise.
func Ellipsis(text string, i int) int {
	n := len(text[i:]) - len(strings.TrimLeft(text[i:], "."))
	if rest := strings.TrimLeft(text[i+n:], " "); n < 2 || rest == "" || rest[0] == '\n' {
		return 0
	}
	return n
}

// Abbreviated reports whether the point at i belongs to an abbreviation such as "i.e.".
func Abbreviated(text string, i int) bool {
	letter := func(k int) bool { return k >= 0 && k < len(text) && text[k] >= 'a' && text[k] <= 'z' }
	return letter(i-1) && !letter(i-2) && (letter(i+1) || i >= 2 && text[i-2] == '.')
}

// WordEnds reports whether byte i is the end of a word.
func WordEnds(text string, i int) bool {
	r, _ := utf8.DecodeRuneInString(text[i:])
	return i == len(text) || r != '_' && !unicode.IsLetter(r) && !unicode.IsNumber(r)
}
