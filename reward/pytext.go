package reward

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"vagen/internal/pytext"
)

// The original systems treat text as Python does: see package pytext for white space; lower-casing uses the full
// mapping.

// skipSpace returns the index of the first character of s, at i or later, that
// is not white space.
func skipSpace(s string, i int) int { return len(s) - len(strings.TrimLeftFunc(s[i:], pytext.Space)) }

const (
	dottedI    = '\u0130' // İ lower-cases to i and a combining dot
	capSigma   = '\u03a3' // Σ lower-cases to ς at the end of a word, else to σ
	finalSigma = '\u03c2'
)

// lower is Python's str.lower.
func lower(s string) string {
	ascii := true
	for i := range len(s) {
		ascii = ascii && s[i] < utf8.RuneSelf
	}
	if ascii || !strings.ContainsRune(s, dottedI) && !strings.ContainsRune(s, capSigma) {
		return strings.ToLower(s)
	}
	var b strings.Builder
	b.Grow(len(s) + 1)
	for i, r := range s {
		switch {
		case r == dottedI:
			b.WriteString("i\u0307")
		case r == capSigma && endsWord(s, i):
			b.WriteRune(finalSigma)
		default:
			b.WriteRune(unicode.ToLower(r))
		}
	}
	return b.String()
}

// endsWord is Unicode's Final_Sigma condition for the sigma at byte i: a cased
// letter before it and none after it, case-ignorable characters aside.
func endsWord(s string, i int) bool {
	before := strings.TrimRightFunc(s[:i], caseIgnorable)
	r, _ := utf8.DecodeLastRuneInString(before)
	if before == "" || !isCased(r) {
		return false
	}
	after := strings.TrimLeftFunc(s[i+len(string(capSigma)):], caseIgnorable)
	r, _ = utf8.DecodeRuneInString(after)
	return after == "" || !isCased(r)
}

func isCased(r rune) bool {
	return unicode.In(r, unicode.Lu, unicode.Ll, unicode.Lt, unicode.Other_Lowercase, unicode.Other_Uppercase)
}

// caseIgnorable covers the categories of the property and the word-break
// punctuation that it adds.
func caseIgnorable(r rune) bool {
	return unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk) ||
		strings.ContainsRune("'.:\u00b7\u0387\u055f\u05f4\u2018\u2019\u2024\u2027\ufe13\ufe52\ufe55\uff07\uff0e\uff1a", r)
}
