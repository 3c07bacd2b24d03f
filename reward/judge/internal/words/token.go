// Package words splits texts into words and gives each its meaning for sentences about the
// places of objects.
package words

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"vagen/reward/judge/internal/plain"
)

// Token is a word of a text with its meaning.
type Token struct {
	Lexeme
	N    int    // of number and ordinal
	Kind string // of object
	Many bool   // a plural object
	Text string // as written, for a foreign word
}

// Names are the words for the objects of a claim: those of its environment and
// those that its truth names.
type Names map[string]string

// KindOf returns the kind of object that a word names, and whether it is a plural.
func (o Names) KindOf(word string) (kind string, many, ok bool) {
	if kind, ok = o[word]; ok {
		return kind, false, true
	}
	if stem, cut := strings.CutSuffix(word, "s"); cut {
		if kind, ok = o[stem]; ok {
			return kind, true, true
		}
		if stem, cut = strings.CutSuffix(stem, "e"); cut {
			if kind, ok = o[stem]; ok {
				return kind, true, true
			}
		}
	}
	return "", false, false
}

// Tokenize splits plain text into words and marks. Hyphens split words, apostrophes
// split possessives and negations from them.
func Tokenize(dst []Token, text string, names Names) []Token {
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c >= 'a' && c <= 'z' || c >= utf8.RuneSelf && letterAt(text[i:]):
			end := wordEnd(text, i)
			w := text[i:end]
			if w == "present" && len(dst) > 0 && dst[len(dst)-1].Class == Filler && names[w] != "" && placedNext(text[end:]) {
				dst = append(dst, Token{Lexeme: Lexeme{Class: Object}, Kind: names[w]}) // a gift
				i = end
				break
			}
			if end == i+1 {
				if long := compassLetter(dst, w, text[end:]); long != "" {
					w = long
				}
			}
			dst = word(dst, w, names)
			i = end
		case c >= '0' && c <= '9':
			n, end := 0, i
			for end < len(text) && (text[end] >= '0' && text[end] <= '9') {
				n, end = min(n*10+int(text[end]-'0'), 1<<20), end+1
			}
			if plain.ItemNumber(text, i, end) {
				i = end + 1
				break
			}
			dst = numeral(dst, n, text, &end)
			i = end
		case c == ' ':
			i++
		default:
			if c == '\n' {
				dst = lineBreak(dst, text, i)
			}
			switch m := markOf(c); {
			case c == '/' && plain.Parts(text, i):
				dst = append(dst, Token{Lexeme: Lexeme{Class: Comma}, Text: ","})
			case c == '-' && len(dst) > 0 && plain.Dashed(text, i):
				dst = append(dst, Token{Lexeme: Lexeme{Class: Comma}, Text: dashText(dst)})
			case c == '.' && len(dst) > 0 && isNoun(dst[len(dst)-1].Class) && plain.Ellipsis(text, i) > 0:
				dst = append(dst, Token{Lexeme: Lexeme{Class: Comma}, Text: ":"}) // "hole ... above me"
				i += plain.Ellipsis(text, i) - 1
			case m != Foreign && !(c == '.' && plain.Abbreviated(text, i)) && !(c == '.' && i+1 < len(text) && text[i+1] >= '0' && text[i+1] <= '9'):
				dst = append(dst, Token{Lexeme: Lexeme{Class: m}, Text: text[i : i+1]})
			}
			_, n := utf8.DecodeRuneInString(text[i:])
			i += n
		}
	}
	return append(dst, Token{Lexeme: Lexeme{Class: Stop}})
}

// lineBreak ends a sentence at a line break, if an empty line, an item of a list or a label
// such as "goal:" follows; after a colon only if an item does not.
func lineBreak(dst []Token, text string, i int) []Token {
	rest := strings.TrimLeft(text[i+1:], " \t")
	if rest == "" || len(dst) == 0 {
		return dst
	}
	last := &dst[len(dst)-1]
	ends := rest[0] == '\n'
	switch c := rest[0]; {
	case (c == '-' || c == '*' || c == '+') && len(rest) > 1 && rest[1] == ' ':
		ends = true
	case c >= '0' && c <= '9':
		digits := strings.TrimLeft(rest, "0123456789")
		ends = len(digits) > 1 && (digits[0] == '.' || digits[0] == ')') && digits[1] == ' '
	case c == '|':
		ends = true
	case c >= 'a' && c <= 'z' || c == '*':
		label, _, ok := strings.Cut(rest[:min(len(rest), 24)], ":")
		ends = ends || ok && !strings.ContainsAny(label, ",.\n") && last.Class != Comma || completes(last) && opens(rest)
	}
	if !ends || last.Class == Stop || last.Class == Question {
		return dst
	}
	return append(dst, Token{Lexeme: Lexeme{Class: Stop}, Text: "\n"})
}

// markOf returns the class of a mark, foreign for other characters.
func markOf(c byte) Class {
	if int(c) < len(marks) {
		return marks[c]
	}
	return Foreign
}

var marks = [utf8.RuneSelf]Class{
	'.': Stop, '!': Stop, ';': Stop, '?': Question, ',': Comma, ':': Comma, '(': Comma, ')': Comma, '[': Comma, ']': Comma, '/': Or, '&': And, '|': Comma, '\'': Possessive,
}

func letterAt(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return unicode.IsLetter(r)
}

func wordEnd(text string, i int) int {
	for i < len(text) {
		if c := text[i]; c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			i++
			continue
		}
		if text[i] < utf8.RuneSelf {
			return i
		}
		r, n := utf8.DecodeRuneInString(text[i:])
		if !unicode.IsLetter(r) {
			return i
		}
		i += n
	}
	return i
}

// numeral appends a number, or an ordinal such as 2nd.
func numeral(dst []Token, n int, text string, end *int) []Token {
	for _, suffix := range []string{"st", "nd", "rd", "th"} {
		if strings.HasPrefix(text[*end:], suffix) && plain.WordEnds(text, *end+2) {
			*end += 2
			return append(dst, Token{Lexeme: Lexeme{Class: Ordinal}, N: n})
		}
	}
	if strings.HasPrefix(text[*end:], "%") && n < 100 {
		return append(dst, Token{Lexeme: Lexeme{Class: Ignorance}}) // with 60% confidence
	}
	return append(dst, Token{Lexeme: Lexeme{Class: Number}, N: n})
}

// word appends the meaning of a word.
func word(dst []Token, w string, names Names) []Token {
	previous := Class(Stop)
	if len(dst) > 0 {
		previous = dst[len(dst)-1].Class
	}
	if previous == Possessive && dst[len(dst)-1].Text == "'" {
		switch w { // what an apostrophe splits off
		case "s":
			dst[len(dst)-1] = Token{Lexeme: Lexeme{Class: Possessive}}
			if len(dst) > 1 && (dst[len(dst)-2].Class == Pronoun || dst[len(dst)-2].Class == Filler) {
				dst[len(dst)-1].Lexeme = Lexeme{Class: Verb}
			}
			return dst
		case "t":
			dst[len(dst)-1] = Token{Lexeme: Lexeme{Class: Not}}
			return dst
		case "m", "re":
			dst[len(dst)-1] = Token{Lexeme: Lexeme{Class: Verb}}
			return dst
		case "ll", "ve", "d":
			dst[len(dst)-1] = Token{Lexeme: Lexeme{Class: Filler}}
			return dst
		}
	}
	if l, ok := Lexicon[w]; ok {
		t := Token{Lexeme: l, N: int(l.A)}
		if l.written {
			t.Text = w
		}
		return append(dst, t)
	}
	if kind, many, ok := names.KindOf(w); ok {
		return append(dst, Token{Lexeme: Lexeme{Class: Object}, Kind: kind, Many: many})
	}
	if w == "clock" && onClock(dst) {
		dst[len(dst)-3] = Token{Lexeme: clockFace[dst[len(dst)-3].N]}
		return dst[:len(dst)-2]
	}
	// isn't, don't and can't are written with n before the apostrophe.
	if stem, cut := strings.CutSuffix(w, "n"); cut {
		if l, ok := Lexicon[stem]; ok {
			return append(dst, Token{Lexeme: l, N: int(l.A)})
		}
	}
	if w == "im" {
		return append(dst, Token{Lexeme: Lexicon["i"]}, Token{Lexeme: Lexicon["am"]})
	}
	if n := len(dst); w == "t" && n > 1 && dst[n-1].Text == "r" && dst[n-2].Text == "w" {
		return append(dst[:n-2], Token{Lexeme: Lexicon["wrt"]}) // w.r.t.
	}
	if w == "g" && len(dst) > 0 && dst[len(dst)-1].Text == "e" {
		return append(dst, Token{Lexeme: Lexeme{Class: Ignorance}}) // e.g.
	}
	if len(w) > 1 && (w[0] == 'r' || w[0] == 'c') && w[1] >= '0' && w[1] <= '9' {
		if short := rowAndColumn(dst, w); short != nil {
			return short
		}
	}
	return append(dst, Token{Text: w})
}

// rowAndColumn reads words such as r3, c4 and r3c4; nil for any other.
func rowAndColumn(dst []Token, w string) []Token {
	for i := 0; i < len(w); {
		axis := RowAxis
		switch w[i] {
		case 'r':
		case 'c':
			axis = ColumnAxis
		default:
			return nil
		}
		n, end := 0, i+1
		for end < len(w) && w[end] >= '0' && w[end] <= '9' {
			n, end = min(n*10+int(w[end]-'0'), 1<<20), end+1
		}
		if end == i+1 {
			return nil
		}
		dst = append(dst, Token{Lexeme: Lexeme{Class: Line, A: uint8(axis)}}, Token{Lexeme: Lexeme{Class: Number}, N: n})
		i = end
	}
	return dst
}
