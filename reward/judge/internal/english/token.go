package english

import (
	"slices"
	"strconv"
	"strings"

	"vagen/reward/judge/internal/plain"
)

// token is a word of a text with its meaning.
type token struct {
	word
	text string // its first word as written
	kind string // of an object
	many bool   // a plural object
}

// Names map the words for the objects of a claim, in lower case, to their kinds.
type Names map[string]string

// Kind returns the kind of object that a word names, and whether it is a plural.
func (o Names) Kind(s string) (kind string, many, ok bool) {
	for _, ending := range []string{"", "s", "es"} {
		if stem, cut := strings.CutSuffix(s, ending); cut {
			if kind, ok = o[stem]; ok {
				return kind, ending != "", true
			}
		}
	}
	return "", false, false
}

// tokenize gives the words of a plain text their meaning.
func tokenize(dst []token, text string, names Names) []token {
	words := plain.Words(make([]string, 0, len(text)/4+8), text)
	for i := 0; i < len(words); {
		w := words[i]
		meaning, says, n := longest(words[i:])
		kind, many, ok := names.Kind(w)
		switch {
		case w == "\n":
			dst, n = append(dst, token{word: word{class: line}}), 1
		case ok && n < 2:
			dst, n = append(dst, token{word{class: object}, w, kind, many}), 1
		case n == 0:
			dst, n = append(dst, number(w)), 1
		case meaning.class == say:
			words = slices.Insert(words, i+n, says...)
			words = words[:min(len(words), maxWords)]
		default:
			dst = append(dst, token{word: meaning, text: w})
		}
		i += n
	}
	return inContext(append(dst, token{word: word{class: stop}}))
}

// maxWords limits how many words of a text are read.
const maxWords = 1 << 14

// longest returns the meaning of the longest phrase at the start of words, the words that it stands
// for, and its length.
func longest(words []string) (word, []string, int) {
	lexicon := lexicon()
	if len(words) > 1 {
		for _, p := range lexicon[[2]string(words)] {
			if n := len(p.rest) + 2; n <= len(words) && slices.Equal(p.rest, words[2:n]) {
				return p.word, p.says, n
			}
		}
	}
	if list := lexicon[[2]string{words[0]}]; len(list) > 0 {
		return list[0].word, list[0].says, 1
	}
	return word{}, nil, 0
}

// number returns the token of digits, of a row or column such as r3, or of a word that is not known.
func number(w string) token {
	if n, err := strconv.Atoi(w); err == nil {
		return token{word: word{class: num, n: min(n, 1<<20)}, text: w}
	}
	if n, err := strconv.Atoi(w[1:]); err == nil && n >= 0 && (w[0] == 'r' || w[0] == 'c') {
		return token{word: word{class: axis, at: [2]place{{equal, 0}, {0, equal}}[strings.IndexByte("rc", w[0])], n: n + 1},
			text: w}
	}
	return token{text: w}
}

// inContext completes the tokens whose meaning depends on those beside them, and removes those
// without meaning.
func inContext(tokens []token) []token {
	out, none := tokens[:0], &token{word: word{class: stop}}
	for i, t := range tokens {
		before, next, second := none, none, none
		if len(out) > 0 {
			before = &out[len(out)-1]
		}
		if i+1 < len(tokens) {
			next = &tokens[i+1]
		}
		if i+2 < len(tokens) {
			second = &tokens[i+2]
		}
		starts := before.class.in(stop, line)
		switch {
		case t.class == skip, starts && (t.class == line || t.class == comma && t.text != "(" && t.text != "[" ||
			t.class == indefinite && next.text == ")"),
			t.text == "either" && next.class.in(stop, comma), t.class == stop &&
				before.class == comma && before.text == "":
			continue
		case t.class == num && (starts || before.text == "(") && (next.text == "." || next.text == ")"):
			t = token{word: word{class: comma}} // the number of an item
		case before.class == num && (t.text == "moves" || t.text == "move"):
			t.class = unit
		case t.class == its && (next.option == "ref" || next.class == exact && second.option == "ref"):
			t.class = pron // its above me
		case t.class == letter:
			if t.class = unknown; before.class.in(num, colon, dir) || next.class == of ||
				next.class == and && second.class == letter {
				t.class = dir
			}
		case t.class == clock && before.class == num:
			t = token{word: word{class: dir, at: clockFace[before.n%12]}, text: t.text}
			out = out[:len(out)-1]
		case t.class == poss && before.class == pron:
			t.class = be
		case t.class == ask && before.text == "(":
			t.class = hedge
		}
		out = append(out, t)
	}
	return out
}

// clockFace is the place of each hour, with twelve at the top.
var clockFace = [12]place{{less, 0}, {less, after}, {less, after}, {0, after}, {after, after}, {after, after},
	{after, 0}, {after, less}, {after, less}, {0, less}, {less, less}, {less, less}}
