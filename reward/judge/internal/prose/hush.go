package prose

import "vagen/reward/judge/internal/words"

// A sentence may state something in one part and nothing in another: "the hole is above
// me, but I cannot tell where the goal is". The parts that state nothing are hushed.

// span is a range of tokens, without its end.
type span struct{ from, to int }

// hush adds a range that states nothing.
func (r *reader) hush(from, to int) { r.hushed = append(r.hushed, span{from, to}) }

// quiet applies the ranges at the token i: the clause before it ends where a range starts
// or ends.
func (r *reader) quiet(i int) {
	inside := false
	for _, s := range r.hushed {
		inside = inside || i >= s.from && i < s.to
	}
	if inside != r.inside {
		r.flush()
		r.inside, r.placed = inside, true // the next object does not join the subject
	}
}

// unknown hushes what a word such as "unsure" at k makes unknown. It reports whether that
// is the whole sentence.
func (r *reader) unknown(k, i, end int) bool {
	if r.concedes(k, i, end) {
		return false
	}
	from, to := i, end
	for j := k; j > i; j-- {
		if c := r.tokens[j].Class; c == words.Comma || c == words.But || c == words.And && r.tokens[r.skip(j+1, end)].Class == words.Player {
			from = j
			break
		}
	}
	for j := k + 1; j < end; j++ {
		if r.tokens[j].Class == words.But {
			to = j
			break
		}
		if t, n := &r.tokens[j], &r.tokens[j+1]; k == i && (t.Class == words.Comma && t.Text == "" || t.Class == words.Filler && t.B == words.AfterWord && n.Class == words.Filler && n.B == words.HereWord) {
			r.hush(i, j) // if I go left I fall, because there is …
			return false
		}
	}
	switch open := r.openQuestion(k, end); {
	case from > i && open == whichOf:
		from = r.lastClause(i, from)
	case from > i && r.whether(from, k, end) > 0 && r.otherAxis(i, from, r.whether(from, k, end), end):
	case from > i && (open == whereOf || r.openBefore(from, k) || r.newObject(i, from, k)):
	case from > i && (r.tokens[k-1].Class == words.Alike || r.tokens[from+1].Class == words.Alike): // so if I go up, so I go up if …
	default:
		from = i
	}
	if to < end {
		about, next := r.firstObject(k, to), r.firstObject(to, end)
		if about == "" || next == "" || about == next {
			to = end
		}
	}
	if from == i && to == end {
		return true
	}
	r.hush(from, to)
	return false
}

// What is not known: which of several statements is true, or something else, such as
// where an object is.
const (
	allOf   = 0
	whichOf = 1
	whereOf = 2
)

// openQuestion finds what follows a word such as "unsure" at k.
func (r *reader) openQuestion(k, end int) int {
	for j := k + 1; j < min(k+5, end); j++ {
		t := &r.tokens[j]
		switch {
		case t.Class == words.Comma:
			return allOf
		case t.Class == words.Filler && t.B == words.WonderWord:
			return whereOf
		case t.Class == words.Filler && t.B == words.WhichWord:
			if j+1 < end && (r.tokens[j+1].Class == words.Filler || r.tokens[j+1].Class == words.Foreign) {
				return whereOf // which way, which side
			}
			return whichOf
		}
	}
	return allOf
}

// openBefore reports whether "how" or "where" stands between from and k: "how far it is I
// cannot say".
func (r *reader) openBefore(from, k int) bool {
	for _, t := range r.tokens[from:k] {
		if t.Class == words.Filler && (t.B == words.WonderWord || t.B == words.WhichWord) {
			return true
		}
	}
	return false
}

// newObject reports whether what is unknown at k is about another kind of object than the
// tokens from i to from: "…, the position of the hole is unknown".
func (r *reader) newObject(i, from, k int) bool {
	about := r.firstObject(from, k)
	if about == "" || r.firstObject(i, from) == "" {
		return false
	}
	for _, t := range r.tokens[i:from] {
		if t.Class == words.Object && t.Kind == about {
			return false
		}
	}
	return true
}

// whether returns the index of "whether" between from and a few words after k; 0 without one.
func (r *reader) whether(from, k, end int) int {
	for j := from; j < min(k+3, end); j++ {
		if r.tokens[j].Class == words.Ignorance && (r.tokens[j].A == words.WhetherWord || r.tokens[j].A == words.IfWord && j > 0 && r.tokens[j-1].Class == words.Sureness) {
			return j
		}
	}
	return 0
}

// otherAxis reports whether what is unknown from k on concerns the other axis than what is
// stated from i to from, or another kind of object.
func (r *reader) otherAxis(i, from, k, end int) bool {
	about := r.firstObject(k, end)
	if was := r.firstObject(i, from); was == "" || about != "" && about != was {
		return was != ""
	}
	var v, h [2]bool
	for n, part := range [2][]words.Token{r.tokens[i:from], r.tokens[k:end]} {
		for j := range part {
			if t := &part[j]; t.Class == words.Direction {
				v[n], h[n] = v[n] || t.A&0xf != 0, h[n] || t.B != 0
			}
		}
	}
	return !(v[0] && v[1]) && !(h[0] && h[1])
}

// lastClause returns where the clause of the last object before the token at to starts: at
// the comma or "and" before its noun phrase; i without one.
func (r *reader) lastClause(i, to int) int {
	for j := to - 1; j > i; j-- {
		if r.tokens[j].Class != words.Object {
			continue
		}
		for j--; j > i; j-- {
			switch r.tokens[j].Class {
			case words.Filler, words.Number, words.Ordinal, words.Other:
				continue
			case words.Comma, words.And, words.But:
				return j
			}
			break
		}
		return i
	}
	return i
}

// firstObject returns the kind of the first object of a range; empty without one.
func (r *reader) firstObject(from, to int) string {
	for _, t := range r.tokens[from:to] {
		if t.Class == words.Object {
			return t.Kind
		}
	}
	return ""
}

// past hushes what a sentence says of an earlier state: up to "now" or "but", where there
// is one. It reports whether that is the whole sentence.
func (r *reader) past(i, end int) bool {
	at, was := -1, -1
	for k := i; k < end; k++ {
		t := &r.tokens[k]
		switch {
		case t.Class == words.Bygone && r.earlier(k, i, end), t.Class == words.Filler && t.B == words.BeforeWord && r.beforeTurn(k, end):
			at = k
		case t.Class == words.Verb && t.B == words.PastWord && was < 0:
			was = k
		case t.Class == words.But || t.Class == words.Filler && t.B == words.NowWord:
			switch {
			case at >= 0 || was >= 0 && (r.presentVerb(k, end) || t.Class == words.But && !r.directed(k, end)):
				r.hush(i, k)
				r.wasPast = false
				return false
			case at < 0 && was < 0 && t.Class == words.Filler:
				return false // now
			}
		}
	}
	r.wasPast = at >= 0 || was >= 0
	if at == i && r.tokens[i+1].Class != words.Comma && r.headed(i, end) {
		r.history = true
	}
	return at >= 0
}

// headed reports whether a colon follows within a few words: "previous observation:".
func (r *reader) headed(i, end int) bool {
	for k := i; k < min(i+4, end); k++ {
		if r.tokens[k].Class == words.Comma && r.tokens[k].Text == ":" {
			return true
		}
	}
	return false
}

// earlier reports whether a word such as "previous" at k dates what is said.
func (r *reader) earlier(k, i, end int) bool {
	for j := max(i, k-3); j < k; j++ {
		if r.tokens[j].Class == words.Filler && r.tokens[j].B == words.AfterWord {
			return false // after the previous move
		}
		if r.tokens[j].Class == words.Linking && r.tokens[j].A == words.AsWord {
			return false // as in the previous turn
		}
	}
	if r.tokens[k].A != words.LastWord {
		return true
	}
	if k+1 >= end {
		return false
	}
	t := &r.tokens[k+1]
	return t.Class == words.Acting || t.Class == words.Unit || t.Class == words.Foreign || t.Class == words.Filler && t.B == words.TimeWord
}

// beforeTurn reports whether "before" at k speaks of the time before a move.
func (r *reader) beforeTurn(k, end int) bool {
	for j := k + 1; j < min(k+5, end); j++ {
		switch r.tokens[j].Class {
		case words.Acting, words.Unit:
			return true
		case words.Filler, words.Possessive, words.Bygone, words.Player, words.Number:
		default:
			return false
		}
	}
	return false
}

// presentVerb reports whether a verb in the present follows k.
func (r *reader) presentVerb(k, end int) bool {
	for _, t := range r.tokens[k:end] {
		if t.Class == words.Verb {
			return t.B != words.PastWord
		}
	}
	return false
}

// directed reports whether a direction stands between i and end.
func (r *reader) directed(i, end int) bool {
	for _, t := range r.tokens[i:end] {
		if t.Class == words.Direction {
			return true
		}
	}
	return false
}

// now reports whether a sentence starts with "now" or "at present".
func (r *reader) now(i, end int) bool {
	for _, t := range r.tokens[i:min(i+3, end)] {
		if t.Class == words.Filler && t.B == words.NowWord {
			return true
		}
		if t.Class != words.Placing && t.Class != words.Filler {
			return false
		}
	}
	return false
}

// remember keeps what the text states so far, for a sentence that takes the last back.
func (r *reader) remember() {
	r.saved, r.savedAt = append(r.saved[:0], r.entities...), r.playerAt
}

// retract forgets what the last sentence stated.
func (r *reader) retract() {
	for i := range r.entities {
		e := &r.entities[i]
		var was entity
		if i < len(r.saved) {
			was = r.saved[i]
		}
		e.v, e.h, e.row, e.col = was.v, was.h, was.row, was.col
	}
	r.playerAt = r.savedAt
}

// retracts reports whether a sentence without objects takes back the one before it:
// "scratch that", "that is wrong".
func (r *reader) retracts(i, end int) bool {
	denied, refers, negative := false, false, false
	for k, t := range r.tokens[i:end] {
		switch {
		case t.Class == words.Object || t.Class == words.Direction && (t.B != words.After || k > 0 && r.tokens[i+k-1].Class == words.Possessive):
			return false
		case t.Class == words.Correcting && t.A == words.DropWord:
			denied = true
		case t.Class == words.Denial:
			denied = true
		case t.Class == words.Not:
			negative = true
		case t.Class == words.Sureness && t.A == words.Truth, t.Class == words.Direction:
			denied = denied || negative
		case t.Class == words.Filler && t.B == words.ThatWord || t.Class == words.Pronoun:
			refers = true
		}
	}
	return denied && refers
}
