package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A scanner returns the length of the first piece of a non-empty string; the pieces
// cover the string. The patterns below need a negative look-ahead, which Go's regexp
// does not have, so each is a hand-written automaton that chooses the same
// alternative as a backtracking engine and reads every byte a bounded number of
// times.
type scanner func(s string) int

// The split patterns of the supported families, as tokenizer.json spells them.
const (
	patternGPT2  = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	patternHead  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|`
	patternQwen2 = patternHead + `\p{N}` + patternTail
	// Qwen3.5: combining marks count as letters, except before the letters of a piece.
	patternMarks = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*` +
		`|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternTail = `| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

var patterns = map[string]scanner{
	patternGPT2:                              scanGPT2,
	patternQwen2:                             func(s string) int { return scanModern(s, 1, isLetter) }, // Qwen2, Qwen3
	patternMarks:                             func(s string) int { return scanModern(s, 1, isLetterOrMark) },
	patternHead + `\p{N}{1,3}` + patternTail: func(s string) int { return scanModern(s, 3, isLetter) }, // Llama 3
}

// scanGPT2 is patternGPT2.
func scanGPT2(s string) int {
	if n := contraction(s, false); n > 0 {
		return n
	}
	rest, space := s, 0
	if s[0] == ' ' {
		rest, space = s[1:], 1
	}
	if rest != "" {
		switch r, _ := utf8.DecodeRuneInString(rest); {
		case isLetter(r):
			return space + span(rest, isLetter)
		case isNumber(r):
			return space + span(rest, isNumber)
		case isOther(r):
			return space + span(rest, isOther)
		}
	}
	return spaces(s)
}

// scanModern is the pattern of Qwen2, of Qwen3.5 and of Llama 3, which differ in what is a letter and in the number of
// digits per piece.
func scanModern(s string, digits int, letter func(rune) bool) int {
	if n := contraction(s, true); n > 0 {
		return n
	}
	r, size := utf8.DecodeRuneInString(s)
	switch {
	case letter(r):
		return span(s, letter)
	case isNumber(r):
		n := size
		for range digits - 1 {
			r, size := utf8.DecodeRuneInString(s[n:])
			if !isNumber(r) {
				break
			}
			n += size
		}
		return n
	}
	next, _ := utf8.DecodeRuneInString(s[size:])
	if r != '\r' && r != '\n' && letter(next) {
		return size + span(s[size:], letter)
	}
	start := 0
	if r == ' ' {
		start = 1
	}
	if start < len(s) {
		if n := span(s[start:], func(r rune) bool { return isOther(r) && !letter(r) }); n > 0 {
			n += start
			return n + span(s[n:], isNewline)
		}
	}
	run := span(s, unicode.IsSpace)
	if i := strings.LastIndexAny(s[:run], "\r\n"); i >= 0 {
		return i + 1
	}
	return spaces(s)
}

// spaces is \s+(?!\S)|\s+ on a string that begins with white space: a run that
// is followed by text leaves its last character to the next piece.
func spaces(s string) int {
	run := span(s, unicode.IsSpace)
	if run == len(s) {
		return run
	}
	_, last := utf8.DecodeLastRuneInString(s[:run])
	if run > last {
		return run - last
	}
	return run
}

func isOther(r rune) bool {
	return !unicode.IsSpace(r) && !isLetter(r) && !isNumber(r)
}

func isNewline(r rune) bool { return r == '\r' || r == '\n' }

// span returns the length of the longest prefix whose characters all satisfy ok.
func span(s string, ok func(rune) bool) int {
	for i, r := range s {
		if !ok(r) {
			return i
		}
	}
	return len(s)
}

// contraction returns the length of an English contraction at the start of s.
// Folding is Unicode's, so that the long s (U+017F) counts as s.
func contraction(s string, fold bool) int {
	if s[0] != '\'' || len(s) < 2 {
		return 0
	}
	lower := func(s string) (rune, int) {
		r, n := utf8.DecodeRuneInString(s)
		if fold {
			if r == 'ſ' {
				return 's', n
			}
			if r < utf8.RuneSelf {
				r = unicode.ToLower(r)
			}
		}
		return r, n
	}
	a, n := lower(s[1:])
	switch a {
	case 's', 't', 'm', 'd':
		return 1 + n
	case 'r', 'v', 'l':
		b, m := lower(s[1+n:])
		if b == 'e' && a != 'l' || b == 'l' && a == 'l' {
			return 1 + n + m
		}
	}
	return 0
}

// scanDigits is the Digits pre-tokenizer, with each digit alone or in runs.
func scanDigits(individual bool) scanner {
	return func(s string) int {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case !isDigit(r):
			return span(s, func(r rune) bool { return !isDigit(r) })
		case individual:
			return size
		}
		return span(s, isDigit)
	}
}
