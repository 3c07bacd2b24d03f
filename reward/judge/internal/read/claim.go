// Package read reads the relations between the player and objects that a text states: in
// JSON, in dictionaries of positions, in maps, and in English sentences. Package judge
// describes what a sentence asserts.
package read

import (
	"maps"
	"slices"
	"strings"

	"vagen/internal/pytext"
	"vagen/reward"
	"vagen/reward/judge/internal/english"
	"vagen/reward/judge/internal/plain"
)

// Firm returns a text without its sentences that are questions, conditions, guesses or
// alternatives.
func Firm(text string) string { return firm(text, nil, false) }

// firm returns a text without its sentences that are questions, conditions, guesses or alternatives,
// and without negative ones where it is positive.
func firm(text string, names english.Names, positive bool) string {
	var kept strings.Builder
	for from := 0; from < len(text); {
		end := from
		for end < len(text) && !sentenceEnd(text, end) {
			end++
		}
		end = min(end+1, len(text))
		if sentence := text[from:end]; english.Asserts(sentence, names, positive) {
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

// Blank reports whether a text has nothing to read.
func Blank(text string) bool { return pytext.Strip(text) == "" }

// Knows reports whether an environment's objects have words of their own.
func Knows(environment string) bool { return objectWords[environment] != nil }

// Relations returns the relations that a claim states.
func Relations(c reward.Claim) []reward.Relation {
	names := named(&c)
	text := plain.Visible(c.Text)
	if list, ok := structured(text, names); ok {
		return list
	}
	if list, ok := Board(text, c.Env); ok {
		return list
	}
	if list, ok := records(text, names); ok {
		return list
	}
	if c.Env == "navigation" {
		return read(firm(text, names, true), names, directions)
	}
	return english.Read(text, names, c.Truth)
}

// Literal returns the relations that a claim states, those of words as read reads them.
func Literal(c reward.Claim) []reward.Relation {
	names := map[string]string{"target": "target"}
	switch c.Env {
	case "frozenlake":
		names["goal"], names["hole"] = "target", "hole"
	case "sokoban":
		names["box"] = "box"
	}
	for _, t := range c.Truth {
		names[strings.ToLower(t.Object)] = t.Object
	}
	if list, ok := structured(c.Text, names); ok {
		return list
	}
	if list, ok := Board(c.Text, c.Env); ok {
		return list
	}
	if c.Env == "navigation" {
		return read(c.Text, names, directions)
	}
	return read(c.Text, names, positions)
}

// structured reads a claim in JSON or as a Python literal: a list of relations or a
// dictionary, alone or within other text. Two of them that differ state nothing.
func structured(text string, names map[string]string) ([]reward.Relation, bool) {
	if list, ok := stated(literal(text), names); ok {
		return list, true
	}
	list, ok := reward.ExtractRelations(text)
	if !ok {
		return nil, false
	}
	list = about(list, names)
	if !english.Asserts(text[:strings.IndexByte(text, '[')]+" "+text[strings.LastIndexByte(text, ']')+1:],
		names, false) {
		return []reward.Relation{}, true
	}
	for rest := text; ; {
		i := strings.LastIndexByte(rest, '[')
		if i < 0 {
			return list, true
		}
		if other, ok := reward.ExtractRelations(rest[i:]); ok {
			if other = about(other, names); len(other) > 0 && !slices.Equal(other, list) {
				return []reward.Relation{}, true
			}
		}
		rest = rest[:i]
	}
}

// about keeps the relations of known objects.
func about(list []reward.Relation, names map[string]string) []reward.Relation {
	out := make([]reward.Relation, 0, len(list))
	for _, r := range list {
		if id, ok := names[strings.ToLower(r.Object)]; ok {
			r.Object, r.Vertical, r.Horizontal = id, english.Vertical(r.Vertical), english.Horizontal(r.Horizontal)
			out = append(out, r)
		}
	}
	return out
}

// named maps the words for a claim's objects, in lower case, to their ids.
func named(c *reward.Claim) map[string]string {
	words := objectWords[c.Env]
	names := make(map[string]string, len(c.Truth)+len(words))
	for _, t := range c.Truth {
		names[strings.ToLower(t.Object)] = t.Object
	}
	maps.Copy(names, words)
	return names
}

// objectWords are further words for the kinds of objects of an environment.
var objectWords = map[string]map[string]string{
	"frozenlake": {"goal": "target", "target": "target", "hole": "hole", "pit": "hole", "pitfall": "hole",
		"treasure": "target", "gift": "target", "present": "target", "destination": "target", "exit": "target"},
	"sokoban": {"goal": "target", "target": "target", "box": "box", "crate": "box", "destination": "target",
		"storage": "target"},
}
