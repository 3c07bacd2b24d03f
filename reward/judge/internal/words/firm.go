package words

import (
	"strings"

	"vagen/reward"
	"vagen/reward/judge/internal/plain"
)

// Firm returns a text about objects with these names without its sentences that are
// questions, conditions, guesses or alternatives, and without negative ones where it is
// positive.
func Firm(text string, names Names, positive bool) string {
	var kept strings.Builder
	for from := 0; from < len(text); {
		end := from
		for end < len(text) && !sentenceEnd(text, end) {
			end++
		}
		end = min(end+1, len(text))
		if sentence := text[from:end]; asserts(sentence, names, positive) {
			kept.WriteString(sentence)
		}
		from = end
	}
	return kept.String()
}

// sentenceEnd reports whether the byte at i ends a sentence; a point within a number does not.
func sentenceEnd(text string, i int) bool {
	switch text[i] {
	case '!', '?', ';', '\n':
		return true
	case '.':
		return i+1 == len(text) || text[i+1] < '0' || text[i+1] > '9'
	}
	return false
}

// asserts reports whether a sentence states something.
func asserts(sentence string, names Names, positive bool) bool {
	for _, t := range Tokenize(nil, plain.Text(sentence), names) {
		switch t.Class {
		case Question, Or, Either, Doubt, Ignorance, Bygone:
			return false
		case Not, No, Neither, Nor, Denial, Without, Void:
			if positive {
				return false
			}
		}
	}
	return true
}

// Offers reports whether the words around a list make it one of several, or a guess.
func Offers(text string, names Names) bool {
	negative := false
	for _, t := range Tokenize(nil, plain.Text(text), names) {
		switch t.Class {
		case Or, Either, Doubt, Ignorance, Question, Denial:
			return true
		case Not, No:
			negative = true
		case Sureness:
			if negative {
				return true
			}
		}
	}
	return false
}

// Vertical reads the value of a vertical relation: one of the usual three words, or
// another word for one of them such as south; "" for any other.
func Vertical(s string) string {
	if s == reward.Above || s == reward.Below || s == reward.Same || s == "" {
		return s
	}
	l := Lexicon[strings.ToLower(strings.TrimSpace(s))]
	if l.Class == Direction {
		return Verticals[l.A&0xf]
	}
	if l.Class == Same {
		return reward.Same
	}
	return ""
}

// Horizontal is Vertical for the other direction.
func Horizontal(s string) string {
	if s == reward.Left || s == reward.Right || s == reward.Same || s == "" {
		return s
	}
	l := Lexicon[strings.ToLower(strings.TrimSpace(s))]
	if l.Class == Direction {
		return Horizontals[l.B]
	}
	if l.Class == Same {
		return reward.Same
	}
	return ""
}
