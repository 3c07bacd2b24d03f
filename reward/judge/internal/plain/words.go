package plain

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Words appends the words and marks of a plain text to dst. Hyphens split words, apostrophes split what is
// contracted: "isn't" is "is" and "n't".
func Words(dst []string, text string) []string {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			end := wordEnd(text, i)
			dst = contracted(dst, text[i:end])
			if n = end - i; unicode.IsLetter(r) && strings.IndexByte(text[i:end], '.') > 0 &&
				strings.HasPrefix(text[end:], ".") {
				n++ // "i.e." ends no sentence
			}
		case strings.HasPrefix(text[i:], "..") || r == '…':
			dst, n = append(dst, "..."), len(text[i:])-len(strings.TrimLeft(text[i:], ".…"))
		case r == '→':
			dst = append(dst, ":")
		case r != '-' && strings.ContainsRune(".,;:!?()[]{}|&/=>%\n", r), r == '-' && spaced(text, i):
			dst = append(dst, text[i:i+n])
		}
		i += n
	}
	return dst
}

// spaced reports whether white space is on both sides of the dashes at i.
func spaced(text string, i int) bool {
	if i > 0 && text[i-1] != ' ' && text[i-1] != '\n' {
		return false
	}
	end := i + len(text[i:]) - len(strings.TrimLeft(text[i:], "-"))
	return end < len(text) && text[end] == ' '
}

func wordEnd(text string, i int) int {
	for i < len(text) {
		r, n := utf8.DecodeRuneInString(text[i:])
		next, _ := utf8.DecodeRuneInString(text[i+n:])
		inner := (r == '\'' || r == '.') && (unicode.IsLetter(next) || r == '.' && unicode.IsDigit(next))
		if !inner && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return i
		}
		i += n
	}
	return i
}

// contracted appends the parts of a word with an apostrophe, or of digits and a letter as in "2n".
func contracted(dst []string, w string) []string {
	at := strings.LastIndexByte(w, '\'')
	digits := len(w) - len(strings.TrimLeft(w, "0123456789"))
	switch {
	case strings.HasSuffix(w, "n't"):
		at = len(w) - len("n't")
	case at > 0 && w[at:] == "'clock":
		at = 0
	case digits > 0 && len(w) == digits+1:
		at = digits
	}
	if at <= 0 {
		return append(dst, w)
	}
	return append(dst, w[:at], w[at:])
}

// WordEnds reports whether byte i is the end of a word.
func WordEnds(text string, i int) bool {
	r, _ := utf8.DecodeRuneInString(text[i:])
	return i == len(text) || r != '_' && !unicode.IsLetter(r) && !unicode.IsNumber(r)
}
