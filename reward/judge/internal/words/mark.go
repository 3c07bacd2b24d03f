package words

import "strings"

// placedNext reports whether a verb or a place is the next word of a text.
func placedNext(rest string) bool {
	word, _, _ := strings.Cut(strings.TrimLeft(rest[:min(len(rest), 16)], " "), " ")
	switch Lexicon[word].Class {
	case Verb, Placing, Toward, Direction:
		return true
	}
	return false
}

// completes reports whether a statement can end with a word, apart from one that takes an
// object, such as "above".
func completes(t *Token) bool {
	return t.Class == Player || t.Class == Direction && t.A>>4 != TakesReference && t.A>>4 != OverWord
}

// opens reports whether a line starts with a noun phrase, so that it may be a new statement.
func opens(line string) bool {
	first, _, _ := strings.Cut(line[:min(len(line), 16)], " ")
	switch l, ok := Lexicon[first]; {
	case !ok:
		return false
	case l.Class == Filler:
		return first == "the" || l.A == Indefinite || l.B == HereWord
	default:
		return l.Class == Player && first != "mine" && first != "me"
	}
}

// dashText is the mark that a dash stands for: a colon after the name of an object.
func dashText(dst []Token) string {
	if isNoun(dst[len(dst)-1].Class) {
		return ":"
	}
	return ","
}

func isNoun(c Class) bool { return c == Object || c == Number }

// onClock reports whether "o'" and the number of an hour stand before "clock".
func onClock(dst []Token) bool {
	n := len(dst)
	return n > 2 && dst[n-1].Class == Possessive && dst[n-2].Text == "o" && dst[n-3].Class == Number && dst[n-3].N > 0 && dst[n-3].N < len(clockFace)
}

// clockFace is the direction of each hour, with twelve at the top.
var clockFace = func() (face [13]Lexeme) {
	for hour := 1; hour < len(face); hour++ {
		l := Lexeme{Class: Direction}
		switch hour {
		case 10, 11, 12, 1, 2:
			l.A = Before
		case 4, 5, 6, 7, 8:
			l.A = After
		}
		switch {
		case hour < 6:
			l.B = After
		case hour > 6 && hour < 12:
			l.B = Before
		}
		face[hour] = l
	}
	return face
}()

// compass are the letters of directions, where something shows that they are no words.
var compass = map[string]string{"n": "north", "s": "south", "e": "east", "w": "west"}

// compassLetter returns the direction of a single letter that "of" follows or a number
// precedes, as in "S of me", "W and N of me" and "2N": empty without one.
func compassLetter(dst []Token, w, rest string) string {
	long := compass[w]
	if after, ok := strings.CutPrefix(rest, " and "); ok && after != "" && compass[after[:1]] != "" {
		rest = after[1:]
	}
	if n := len(dst); n > 0 && dst[n-1].Text == ":" && (rest == "" || strings.ContainsAny(rest[:1], ".,;\n")) {
		return long // goal: n
	}
	if long == "" || !strings.HasPrefix(rest, " of ") && !(len(dst) > 0 && dst[len(dst)-1].Class == Number && !strings.HasPrefix(rest, "'")) {
		return ""
	}
	return long
}
