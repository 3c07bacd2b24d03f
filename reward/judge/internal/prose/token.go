package prose

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// token is a word of a text with its meaning.
type token struct {
	lexeme
	n    int    // of number and ordinal
	kind string // of object
	many bool   // a plural object
	text string // as written, for a foreign word
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

// tokenize splits plain text into words and marks. Hyphens split words, apostrophes
// split possessives and negations from them.
func tokenize(dst []token, text string, names Names) []token {
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c >= 'a' && c <= 'z' || c >= utf8.RuneSelf && letterAt(text[i:]):
			end := wordEnd(text, i)
			dst = word(dst, text[i:end], names)
			i = end
		case c >= '0' && c <= '9':
			n, end := 0, i
			for end < len(text) && (text[end] >= '0' && text[end] <= '9') {
				n, end = min(n*10+int(text[end]-'0'), 1<<20), end+1
			}
			dst = numeral(dst, n, text, &end)
			i = end
		default:
			if c == '\n' {
				dst = lineBreak(dst, text, i)
			}
			if m := markOf(c); m != foreign && !(c == '.' && abbreviated(text, i)) && !(c == '.' && i+1 < len(text) && text[i+1] >= '0' && text[i+1] <= '9') {
				dst = append(dst, token{lexeme: lexeme{class: m}, text: text[i : i+1]})
			}
			_, n := utf8.DecodeRuneInString(text[i:])
			i += n
		}
	}
	return append(dst, token{lexeme: lexeme{class: stop}})
}

// lineBreak ends a sentence at a line break, if an empty line, an item of a list or a label
// such as "goal:" follows; after a colon only if an item does not.
func lineBreak(dst []token, text string, i int) []token {
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
	case c >= 'a' && c <= 'z' || c == '*':
		label, _, ok := strings.Cut(rest[:min(len(rest), 24)], ":")
		ends = ends || ok && !strings.ContainsAny(label, ",.\n") && last.class != comma
	}
	if !ends || last.class == stop || last.class == question {
		return dst
	}
	return append(dst, token{lexeme: lexeme{class: stop}, text: "\n"})
}

// abbreviated reports whether the point at i belongs to an abbreviation such as "i.e.".
func abbreviated(text string, i int) bool {
	letter := func(k int) bool { return k >= 0 && k < len(text) && text[k] >= 'a' && text[k] <= 'z' }
	return letter(i-1) && !letter(i-2) && (letter(i+1) || i >= 2 && text[i-2] == '.')
}

// markOf returns the class of a mark, foreign for other characters.
func markOf(c byte) class {
	if int(c) < len(marks) {
		return marks[c]
	}
	return foreign
}

var marks = [utf8.RuneSelf]class{
	'.': stop, '!': stop, ';': stop, '?': question, ',': comma, ':': comma, '(': comma, ')': comma, '[': comma, ']': comma, '/': or, '&': and, '|': comma, '\'': possessive,
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
func numeral(dst []token, n int, text string, end *int) []token {
	for _, suffix := range []string{"st", "nd", "rd", "th"} {
		if strings.HasPrefix(text[*end:], suffix) && WordEnds(text, *end+2) {
			*end += 2
			return append(dst, token{lexeme: lexeme{class: ordinal}, n: n})
		}
	}
	if strings.HasPrefix(text[*end:], "%") && n < 100 {
		return append(dst, token{lexeme: lexeme{class: ignorance}}) // with 60% confidence
	}
	return append(dst, token{lexeme: lexeme{class: number}, n: n})
}

// word appends the meaning of a word.
func word(dst []token, w string, names Names) []token {
	previous := class(stop)
	if len(dst) > 0 {
		previous = dst[len(dst)-1].class
	}
	if previous == possessive && dst[len(dst)-1].text == "'" {
		switch w { // what an apostrophe splits off
		case "s":
			dst[len(dst)-1] = token{lexeme: lexeme{class: possessive}}
			if len(dst) > 1 && (dst[len(dst)-2].class == pronoun || dst[len(dst)-2].class == filler) {
				dst[len(dst)-1].lexeme = lexeme{class: verb}
			}
			return dst
		case "t":
			dst[len(dst)-1] = token{lexeme: lexeme{class: not}}
			return dst
		case "m", "re":
			dst[len(dst)-1] = token{lexeme: lexeme{class: verb}}
			return dst
		case "ll", "ve", "d":
			dst[len(dst)-1] = token{lexeme: lexeme{class: filler}}
			return dst
		}
	}
	if l, ok := lexicon[w]; ok {
		t := token{lexeme: l, n: int(l.a)}
		if w == "a" {
			t.text = w // a label, in "hole A"
		}
		return append(dst, t)
	}
	if kind, many, ok := names.KindOf(w); ok {
		return append(dst, token{lexeme: lexeme{class: object}, kind: kind, many: many})
	}
	// isn't, don't and can't are written with n before the apostrophe.
	if stem, cut := strings.CutSuffix(w, "n"); cut {
		if l, ok := lexicon[stem]; ok {
			return append(dst, token{lexeme: l, n: int(l.a)})
		}
	}
	if w == "g" && len(dst) > 0 && dst[len(dst)-1].text == "e" {
		return append(dst, token{lexeme: lexeme{class: ignorance}}) // e.g.
	}
	if len(w) > 1 && (w[0] == 'r' || w[0] == 'c') && w[1] >= '0' && w[1] <= '9' {
		if short := rowAndColumn(dst, w); short != nil {
			return short
		}
	}
	return append(dst, token{text: w})
}

// rowAndColumn reads words such as r3, c4 and r3c4; nil for any other.
func rowAndColumn(dst []token, w string) []token {
	for i := 0; i < len(w); {
		axis := rowAxis
		switch w[i] {
		case 'r':
		case 'c':
			axis = columnAxis
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
		dst = append(dst, token{lexeme: lexeme{class: line, a: uint8(axis)}}, token{lexeme: lexeme{class: number}, n: n})
		i = end
	}
	return dst
}

// WordEnds reports whether byte i is the end of a word.
func WordEnds(text string, i int) bool {
	r, _ := utf8.DecodeRuneInString(text[i:])
	return i == len(text) || r != '_' && !unicode.IsLetter(r) && !unicode.IsNumber(r)
}
