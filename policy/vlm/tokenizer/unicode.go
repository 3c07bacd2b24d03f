package tokenizer

import "unicode"

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

// ranges returns a table of ranges of characters, first and last in turn.
func ranges(bounds ...rune) *unicode.RangeTable {
	t := &unicode.RangeTable{}
	for i := 0; i < len(bounds); i += 2 {
		if lo, hi := bounds[i], bounds[i+1]; hi <= 0xffff {
			t.R16 = append(t.R16, unicode.Range16{Lo: uint16(lo), Hi: uint16(hi), Stride: 1})
		} else {
			t.R32 = append(t.R32, unicode.Range32{Lo: uint32(lo), Hi: uint32(hi), Stride: 1})
		}
	}
	return t
}

var (
	newLetters = ranges(
		0x1c89, 0x1c8a, 0xa7cb, 0xa7cd, 0xa7da, 0xa7dc, 0x105c0, 0x105f3, 0x10d4a, 0x10d65, 0x10d6f, 0x10d85,
		0x10ec2, 0x10ec4, 0x11380, 0x11389, 0x1138b, 0x1138b, 0x1138e, 0x1138e, 0x11390, 0x113b5,
		0x113b7, 0x113b7, 0x113d1, 0x113d1, 0x113d3, 0x113d3, 0x11bc0, 0x11be0, 0x13460, 0x143fa,
		0x16100, 0x1611d, 0x16d40, 0x16d6c, 0x18cff, 0x18cff, 0x1e5d0, 0x1e5ed, 0x1e5f0, 0x1e5f0,
		0x2ebf0, 0x2ee5d,
	)
	newDigits = ranges(
		0x10d40, 0x10d49, 0x116d0, 0x116e3, 0x11bf0, 0x11bf9, 0x16130, 0x16139, 0x16d70, 0x16d79,
		0x1ccf0, 0x1ccf9, 0x1e5f1, 0x1e5fa,
	)
	newNumerals = ranges(0x11de0, 0x11de9, 0x16ff4, 0x16ff6)
	newMarks    = ranges(
		0x897, 0x897, 0x10d69, 0x10d6d, 0x10efc, 0x10efc, 0x113b8, 0x113c0, 0x113c2, 0x113c2,
		0x113c5, 0x113c5, 0x113c7, 0x113ca, 0x113cc, 0x113d0, 0x113d2, 0x113d2, 0x113e1, 0x113e2,
		0x11f5a, 0x11f5a, 0x1611e, 0x1612f, 0x1e5ee, 0x1e5ef,
	)

	// inert characters have a combining class or take part in compositions since Unicode 10 or later:
	// normalisation by Unicode 9 neither moves nor composes them, nor anything across them.
	inert = ranges(
		0x5c8, 0x5c9, 0x7fd, 0x7fd, 0x897, 0x8d3, 0x9fe, 0x9fe, 0xc3c, 0xc3c, 0xd3b, 0xd3c, 0xeba, 0xeba,
		0x1715, 0x1715, 0x1abf, 0x1af0, 0x1df6, 0x1dfa, 0xa82c, 0xa82c, 0x105c9, 0x105e4, 0x10d24, 0x10f85,
		0x11070, 0x11070, 0x1133b, 0x1133b, 0x11382, 0x113d0, 0x1145e, 0x1145e, 0x11839, 0x11a99,
		0x11d42, 0x11f42, 0x1611e, 0x1612f, 0x16d63, 0x16ff1, 0x1d127, 0x1d128, 0x1d250, 0x1d281,
		0x1e08f, 0x1e6f5,
	)
)
