package prose

import "vagen/reward/judge/internal/words"

// direction reads directions such as "above", "to the upper left of me" or "north and
// west", up to their reference.
func (r *reader) direction(i, end int) int {
	t := &r.tokens[i]
	if r.noise(i, end) {
		return i + 1
	}
	if i+1 < end && t.B == words.After && t.A == 0 && r.tokens[i+1].Class == words.Direction && r.tokens[i+1].A>>4 == words.TakesReference && r.tokens[i+2].Text != "side" && !r.possess {
		r.precise = true // right above
		return i + 1
	}
	if i+2 < end && r.tokens[i+1].Class == words.Line && r.tokens[i+2].Class == words.Filler && r.tokens[i+2].B == words.IndexWord && t.A>>4 == 0 && t.B == 0 {
		m := mention{ref: noReference} // a higher row number is further down
		m.order(r.tokens[i+1].A, opposite(t.A&0xf))
		next := i + 3
		if ref, after := r.reference(next, end, false); ref != noReference {
			m.ref, next = ref, after
		}
		r.state(m)
		return next
	}
	if i+1 < end && (r.tokens[i+1].Class == words.Part || r.tokens[i+1].Class == words.Line) {
		if ref, next := r.reference(i+2, end, false); r.tokens[i+1].Class == words.Line && ref != noReference { // in a higher row than mine
			r.state(mention{v: t.A & 0xf, h: t.B, ref: ref})
			return next
		}
		return i + 2 // the left column, the upper left corner: places on the board
	}
	r.ofNoun(i)
	m := mention{v: t.A & 0xf, h: t.B, exact: r.precise && !r.ofLine(i), ref: noReference}
	prepositional := t.A>>4 != 0
	next := i + 1
	for next < end && r.tokens[next].Class == words.Direction && !r.noise(next, end) { // upper left, down south
		d := &r.tokens[next]
		if d.A&0xf != 0 && m.v != 0 && d.A&0xf != m.v || d.B != 0 && m.h != 0 && d.B != m.h {
			break
		}
		m.v, m.h = m.v|d.A&0xf, m.h|d.B
		prepositional = d.A>>4 != 0
		next++
	}
	if next < end && r.tokens[next].Class == words.Part {
		ref, after := r.reference(next+1, end, false)
		if ref != thePlayer { // a place on the board
			r.corner(m.v, m.h, i, next+1, end)
			return next + 1
		}
		m.ref = ref
		r.state(m)
		return after
	}
	r.precise = false
	if i > 0 && r.tokens[i-1].Class == words.Pronoun && r.tokens[i-1].B == words.Own { // on its left
		m.ref = r.antecedent()
	} else if r.possess {
		m.ref = thePlayer
		if ref, after := r.reference(next, end, prepositional); ref == thePlayer {
			next = after // to my right and below me
		}
	} else if r.owner != noReference {
		m.ref, r.owner = r.owner, noReference
	} else if ref, after := r.reference(next, end, prepositional); ref != noReference {
		m.ref, next = ref, after
	}
	r.state(m)
	if i > 0 && m.ref >= 0 && len(r.recent) > 1 && m.ref == r.recent[0] && r.tokens[i-1].Class == words.Pronoun && r.subject[0] == thePlayer {
		for _, id := range r.recent[1:] { // the hole and the goal have me on their left
			m.ref = id
			r.state(m)
		}
	}
	return r.moreReferences(m, next, end)
}

// moreReferences reads "and the hole" in "I am above the goal and the hole".
func (r *reader) moreReferences(m mention, i, end int) int {
	for m.ref >= 0 && len(r.subject) > 0 && r.subject[0] == thePlayer && i+1 < end && r.tokens[i].Class == words.And {
		ids, next := r.phrase(i+1, end)
		if ids == nil || next < end && r.tokens[next].Class != words.Comma && r.tokens[next].Class != words.And {
			return i
		}
		m.ref = ids[0]
		r.state(m)
		i = next
	}
	return i
}

// action skips the directions of a motion, as in "I push the box up", "go left".
func (r *reader) action(i, end int) int {
	if r.leads(i) {
		return i + 1
	}
	if next := r.travelled(i, end); next > 0 {
		return next
	}
	if next := r.required(i, end); next > 0 {
		return next
	}
	takes := r.tokens[i].A == words.TakesObject
	for i++; i < end; i++ {
		switch t := &r.tokens[i]; t.Class {
		case words.Filler:
			if t.B == words.AfterWord {
				return i
			}
			continue
		case words.Number, words.Unit, words.Line, words.Cell:
			if r.tokens[i].Class == words.Number && !r.measures(i+1, end) {
				return i
			}
			continue
		case words.Toward:
			if r.leadsToDirection(i+1, end) {
				continue
			}
		case words.Direction:
			continue
		case words.And:
			if j := r.skip(i+1, end); r.tokens[j].Class == words.Direction && !r.referred(j+1, end) {
				continue
			}
		case words.Object, words.Pronoun:
			if takes && !(t.Class == words.Pronoun && r.tokens[i+1].Class == words.Verb) {
				if ids, _ := r.phrase(i, end); ids != nil {
					r.recent = append(r.recent[:0], ids...)
				}
				continue
			}
		}
		return i
	}
	return i
}

// referred reports whether a reference to the player follows a direction.
func (r *reader) referred(i, end int) bool {
	ref, _ := r.reference(i, end, true)
	return ref == thePlayer
}

// reference reads what a direction refers to. Without bare, it must follow a word such
// as "of" or "than".
func (r *reader) reference(i, end int, bare bool) (ref, next int) {
	linked := bare
	for k := i; k < end; k++ {
		t := &r.tokens[k]
		switch t.Class {
		case words.Linking:
			linked, bare = true, false
			continue
		case words.Relating:
			linked, bare = true, false
			continue
		case words.Toward:
			if k == i && i > 0 && r.tokens[i-1].Class == words.Direction && r.tokens[i-1].A == 0 && r.nounNext(k+1, end) {
				linked = true // left to me
				continue
			}
			if !linked || bare {
				return noReference, i
			}
			continue
		case words.Filler:
			continue
		case words.Player:
			if !linked {
				return noReference, i
			}
			if t.B == words.Nominative && k+1 < end && r.tokens[k+1].Class == words.Verb {
				return thePlayer, k + 2 // where I am
			}
			return thePlayer, r.afterPlayer(k+1, end)
		case words.Possessive:
			if linked && k+1 < end {
				return thePlayer, r.afterPlayer(k, end)
			}
			return noReference, i
		case words.Cell, words.Line: // of the cell that I am in
			if linked && (!bare || k == i+1 && r.tokens[i].Class == words.Filler) && r.mine(k+1, end) {
				return thePlayer, r.afterMine(k+1, end)
			}
			if linked && !bare {
				return otherwiseLocated, k + 1
			}
			return noReference, i
		case words.Pronoun:
			if !linked {
				return noReference, i
			}
			return r.antecedent(), k + 1
		case words.Part, words.Foreign, words.Level:
			if n := &r.tokens[k+1]; linked && t.Class == words.Foreign && n.Class == words.Player && n.B == words.NounWord {
				continue // of the green player
			}
			if linked && (t.Class != words.Level || bare) {
				return otherwiseLocated, k + 1
			}
			return noReference, i
		case words.Object, words.Number, words.Ordinal, words.Other, words.Several, words.Alternative:
			if !linked {
				return noReference, i
			}
			ids, after := r.phrase(k, end)
			if ids == nil {
				if t.Class == words.Number || t.Class == words.Several {
					return noReference, i
				}
				if ids, after = r.implied(k, end); ids == nil {
					return otherwiseLocated, k + 1
				}
			}
			return ids[0], after
		}
		return noReference, i
	}
	return noReference, i
}

// nounNext reports whether the player or an object, and nothing of theirs, is at i.
func (r *reader) nounNext(i, end int) bool {
	i = r.skip(i, end)
	if c := r.tokens[i].Class; i >= end || c != words.Player && c != words.Object {
		return false
	}
	return r.tokens[i+1].Class != words.Possessive
}

// antecedent is what "it" refers to after a direction: for the player as the subject,
// the object spoken of last.
func (r *reader) antecedent() int {
	if r.observer {
		return thePlayer // "the agent sees the goal to its left"
	}
	if len(r.subject) > 0 && r.subject[0] == thePlayer {
		for k := len(r.mentions) - 1; k >= 0; k-- {
			if r.mentions[k].ref >= 0 {
				return r.mentions[k].ref
			}
		}
		if r.base >= 0 {
			return r.base // "from the box's point of view I am above it"
		}
		if len(r.recent) > 0 {
			return r.recent[0]
		}
	}
	if r.spokenOf == thePlayer && len(r.subject) > 0 {
		return thePlayer // "I am in row 3. The goal is above it."
	}
	return otherwiseLocated
}

// afterPlayer skips what belongs to a reference to the player: "'s own position".
func (r *reader) afterPlayer(i, end int) int {
	for i < end && r.tokens[i].Class == words.Player && r.tokens[i].B == words.NounWord && r.tokens[i-1].Class == words.Player {
		i++ // the player character
	}
	if i < end && r.tokens[i].Class == words.Possessive {
		i++
	}
	for i < end && r.tokens[i].Class == words.Filler && r.tokens[i].B == words.OwnWord {
		i++
	}
	if i < end && (r.tokens[i].Class == words.Cell || r.tokens[i].Class == words.Line) && i > 0 && r.tokens[i-1].Class != words.Player {
		i++
	}
	return i
}

// mine reports whether words such as "I am in" or "of the player" follow a row or cell.
func (r *reader) mine(i, end int) bool { return r.afterMine(i, end) > i }

// afterMine returns the index after such words, or i.
func (r *reader) afterMine(i, end int) int {
	linked := false
	for k := i; k < end && k < i+4; k++ {
		switch r.tokens[k].Class {
		case words.Filler, words.Placing:
		case words.Linking:
			linked = true
		case words.Player:
			next := k + 1
			if next < end && r.tokens[next].Class == words.Verb {
				next++
				for next < end && (r.tokens[next].Class == words.Placing || r.tokens[next].Class == words.Filler && r.tokens[next].A == 0 && r.tokens[next].Text == "") {
					next++
				}
				return next
			}
			if linked {
				return next
			}
			return i
		default:
			return i
		}
	}
	return i
}

// follows reports whether a verb or an unknown word stands before i in its part of the
// sentence, so that an object before i is not a bare label.
func (r *reader) follows(i int) bool {
	for i--; i >= 0; i-- {
		switch r.tokens[i].Class {
		case words.Stop, words.Question, words.Comma, words.And:
			return false
		case words.Verb, words.Foreign, words.Toward:
			return true
		}
	}
	return false
}
