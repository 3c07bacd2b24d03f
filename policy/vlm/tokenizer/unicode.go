package tokenizer

import (
	"cmp"
	"strconv"
	"strings"
	"unicode"
)

// Hugging Face's tokenizers 0.23 classifies characters by Unicode 16 in patterns and by Unicode 17
// in its Digits step, and normalises by Unicode 9; the packages unicode and x/text have Unicode 15.
// The tables below are the differences. A newer version of those packages may make entries
// superfluous, but not wrong, unless they know characters that tokenizers does not.

func isLetter(r rune) bool { return unicode.IsLetter(r) || unicode.Is(newLetters, r) }
func isMark(r rune) bool   { return unicode.IsMark(r) || unicode.Is(newMarks, r) }
func isNumber(r rune) bool { return unicode.IsNumber(r) || unicode.Is(newDigits, r) }

func isLetterOrMark(r rune) bool { return isLetter(r) || isMark(r) }

// isDigit is the class of the Digits step: Rust's char::is_numeric.
func isDigit(r rune) bool { return isNumber(r) || unicode.Is(newNumerals, r) }

// isWord is Unicode's \w (UTS #18, annex C).
func isWord(r rune) bool {
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Other_Alphabetic, unicode.Pc,
		unicode.Join_Control, newLetters, newDigits, newMarks)
}

// ranges returns a table of characters and ranges of characters, in hexadecimal.
func ranges(text string) *unicode.RangeTable {
	t := &unicode.RangeTable{}
	for _, r := range strings.Fields(text) {
		first, last, _ := strings.Cut(r, "-")
		lo, _ := strconv.ParseUint(first, 16, 32)
		hi, _ := strconv.ParseUint(cmp.Or(last, first), 16, 32)
		if hi <= 0xffff {
			t.R16 = append(t.R16, unicode.Range16{Lo: uint16(lo), Hi: uint16(hi), Stride: 1})
		} else {
			t.R32 = append(t.R32, unicode.Range32{Lo: uint32(lo), Hi: uint32(hi), Stride: 1})
		}
	}
	return t
}

var (
	newLetters = ranges(`
		1c89-1c8a a7cb-a7cd a7da-a7dc 105c0-105f3 10d4a-10d65 10d6f-10d85 10ec2-10ec4 11380-11389 1138b 1138e
		11390-113b5 113b7 113d1 113d3 11bc0-11be0 13460-143fa 16100-1611d 16d40-16d6c 18cff 1e5d0-1e5ed 1e5f0
		2ebf0-2ee5d
	`)
	newDigits   = ranges("10d40-10d49 116d0-116e3 11bf0-11bf9 16130-16139 16d70-16d79 1ccf0-1ccf9 1e5f1-1e5fa")
	newNumerals = ranges("11de0-11de9 16ff4-16ff6")
	newMarks    = ranges(`
		897 10d69-10d6d 10efc 113b8-113c0 113c2 113c5 113c7-113ca 113cc-113d0 113d2 113e1-113e2 11f5a 1611e-1612f
		1e5ee-1e5ef
	`)

	// inert characters have a combining class or take part in compositions since Unicode 10 or later:
	// normalisation by Unicode 9 neither moves nor composes them, nor anything across them.
	inert = ranges(`
		5c8-5c9 7fd 897-8d3 9fe c3c d3b-d3c eba 1715 1abf-1af0 1df6-1dfa a82c 105c9-105e4 10d24-10f85 11070 1133b
		11382-113d0 1145e 11839-11a99 11d42-11f42 1611e-1612f 16d63-16ff1 1d127-1d128 1d250-1d281 1e08f-1e6f5
	`)
)
