package read

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"vagen/internal/pytext"
	"vagen/reward"
	"vagen/reward/judge/internal/plain"
)

// phrase is a word for a position, with the relation that it states.
type phrase struct {
	text                 string
	vertical, horizontal string
}

// The closed vocabulary of positions relative to a player.
var positions = []phrase{
	{"above", reward.Above, ""}, {"below", reward.Below, ""}, {"same row", reward.Same, ""},
	{"left", "", reward.Left}, {"right", "", reward.Right}, {"same column", "", reward.Same},
}

// directions are relative to the direction of view: ahead is above and behind is
// below, as on a map whose top is ahead.
var directions = []phrase{
	{"ahead", reward.Above, reward.Same}, {"in front", reward.Above, reward.Same},
	{"behind", reward.Below, reward.Same}, {"back", reward.Below, reward.Same},
	{"left", reward.Same, reward.Left}, {"right", reward.Same, reward.Right},
}

// read reads sentences literally, as judge.Rules describes.
func read(text string, names map[string]string, vocabulary []phrase) []reward.Relation {
	text = strings.ToLower(strings.Join(strings.FieldsFunc(text, pytext.Space), " "))
	var list []reward.Relation
	id, from := "", 0
	add := func(clause string) {
		if from > 0 {
			list = append(list, relation(id, clause, vocabulary))
		}
	}
	for i := 0; i < len(text); {
		name, end := nameAt(text, i, names)
		if end == 0 {
			_, n := utf8.DecodeRuneInString(text[i:])
			i += n
			continue
		}
		add(text[from:i])
		id, from, i = names[name], end, end
	}
	add(text[from:])
	return list
}

// nameAt returns the longest name that starts at byte i, and the end of the name and
// its number; the end is 0 if there is no name.
func nameAt(text string, i int, names map[string]string) (found string, end int) {
	for name := range names {
		if len(name) <= len(found) || !strings.HasPrefix(text[i:], name) {
			continue
		}
		at := i + len(name)
		digits := strings.TrimLeft(text[at:], " ")
		if n := len(digits) - len(strings.TrimLeftFunc(digits, unicode.IsDigit)); n > 0 {
			if past := len(text) - len(digits) + n; plain.WordEnds(text, past) {
				found, end = name, past
				continue
			}
		}
		if plain.WordEnds(text, at) {
			found, end = name, at
		}
	}
	return found, end
}

func relation(id, clause string, vocabulary []phrase) reward.Relation {
	r := reward.Relation{Object: id}
	var vertical, horizontal [2]bool // [0]: a value is stated; [1]: different values are
	state := func(to *string, seen *[2]bool, value string) {
		switch {
		case value == "" || seen[1] || seen[0] && *to == value:
		case seen[0]:
			seen[1], *to = true, ""
		default:
			seen[0], *to = true, value
		}
	}
	for _, p := range vocabulary {
		if strings.Contains(clause, p.text) {
			state(&r.Vertical, &vertical, p.vertical)
			state(&r.Horizontal, &horizontal, p.horizontal)
		}
	}
	return r
}
