package prose

import "vagen/reward/judge/internal/words"

// elsewhere makes a word that is not known the subject of the verb at i: "free floor is
// above me".
func (r *reader) elsewhere(i int) {
	if len(r.mentions) > 0 && len(r.subject) > 0 && !r.fronted && r.strangeNoun(i) {
		r.begin([]int{r.entity("", 0, 1)}, false)
		return
	}
	if len(r.subject) > 0 || len(r.mentions) > 0 || r.base != noReference {
		return
	}
	unknown := false
	for k := i - 1; k >= 0; k-- {
		switch r.tokens[k].Class {
		case words.Foreign, words.Part:
			unknown = true
		case words.Filler, words.Possessive:
			continue
		case words.Stop, words.Question, words.Comma, words.And, words.But:
			k = 0
		default:
			return
		}
	}
	if unknown {
		r.begin([]int{r.entity("", 0, 1)}, false)
	}
}

// wished reports whether "to be" at i follows a word such as "need" in its clause.
func (r *reader) wished(i int) bool {
	for k := i - 1; k >= max(0, i-12); k-- {
		switch t := &r.tokens[k]; t.Class {
		case words.Stop, words.Question, words.Comma, words.But, words.Direction:
			return false
		case words.Foreign:
			if wishes[t.Text] {
				return true
			}
		}
	}
	return false
}

// wishes are words after which "to be" states what should be, or what others say.
var wishes = map[string]bool{"need": true, "needs": true, "needed": true, "like": true, "said": true, "prefer": true, "require": true, "required": true, "requires": true, "allowed": true, "meant": true}

// strangeNoun reports whether a noun that is not known is the subject of the verb at i in a
// later clause: "…, and the wall is above me".
func (r *reader) strangeNoun(i int) bool {
	k := i - 1
	if k < 2 || r.tokens[k].Class != words.Foreign && r.tokens[k].Class != words.Part {
		return false
	}
	for k--; k > 0 && r.tokens[k].Class == words.Foreign; k-- {
	}
	if t := &r.tokens[k]; t.Class != words.Filler || t.B != 0 || k == 0 {
		return false
	}
	switch t := &r.tokens[k-1]; t.Class {
	case words.Comma, words.And, words.But:
		return true
	case words.Filler:
		return t.Text == "while"
	}
	return false
}

// stranger reports whether the word at i is a noun that is not known, with a place after it: "a
// wall to my left".
func (r *reader) stranger(i, end int) bool {
	if i == 0 || i+1 >= end || !r.leadsToPlace(i+1, end) || r.tokens[i].Class == words.Part && r.tokens[i+1].Class == words.Number {
		return false
	}
	k := i - 1
	for k > 0 && r.tokens[k].Class == words.Foreign {
		k--
	}
	if t := &r.tokens[k]; t.Class != words.Number && !(t.Class == words.Filler && t.A == words.Indefinite) {
		return false
	}
	if k == 0 {
		return true
	}
	switch t := &r.tokens[k-1]; t.Class {
	case words.Stop, words.Question, words.Comma, words.And, words.But:
		return true
	case words.Verb:
		return k > 1 && r.tokens[k-2].Class == words.Filler && r.tokens[k-2].B == words.HereWord
	case words.Filler, words.Seeing:
		return t.Class == words.Seeing && len(r.subject) == 0
	}
	return false
}

// bare reports whether "too" at i follows an object that nothing else is said of: "the goal
// too".
func (r *reader) bare(i, end int) bool {
	if i == 0 || r.tokens[i-1].Class != words.Object || i+1 < end && r.tokens[i+1].Class != words.Comma {
		return false
	}
	for k := i - 2; k >= 0; k-- {
		switch r.tokens[k].Class {
		case words.Filler, words.Number, words.Ordinal:
			continue
		case words.Stop, words.Question, words.Comma, words.And, words.But:
			return true
		}
		return false
	}
	return true
}
