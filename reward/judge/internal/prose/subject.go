package prose

import "vagen/reward/judge/internal/words"

// playerWord reads the player as a subject, and "my row", "my left", "my position".
func (r *reader) playerWord(i, end int) int {
	k := i
	if r.tokens[k].Class == words.Player {
		k++
		if k >= end || r.tokens[k].Class != words.Possessive {
			return r.playerSubject(i, k, end)
		}
	}
	for k++; k < end && (r.tokens[k].Class == words.Filler || r.tokens[k].Class == words.Beside && r.tokens[k+1].Class == words.Cell); k++ {
	}
	if k >= end {
		return k
	}
	switch t := &r.tokens[k]; t.Class {
	case words.Line:
		if k+1 < end && (r.tokens[k+1].Class == words.Number || (r.tokens[k+1].Class == words.Verb || r.tokens[k+1].Class == words.Comma && r.tokens[k+1].Text == ":") && r.tokens[k+2].Class == words.Number) {
			r.player()
			return k
		}
		if k+1 < end && r.tokens[k+1].Class == words.Verb && r.before(i) != words.Placing {
			r.player()
			r.axis = t.A // the player's row is …
			return k + 1
		}
		m := mention{ref: thePlayer}
		m.set(t.A)
		k++
		if k+1 < end && r.tokens[k].Class == words.And && r.tokens[k+1].Class == words.Line {
			m.set(r.tokens[k+1].A)
			k += 2
		}
		r.state(m)
		return k
	case words.Level:
		if t.A != words.Aligned {
			r.state(mention{v: words.Equal, ref: thePlayer})
		}
		return k + 1
	case words.Cell:
		if k+1 < end && r.tokens[r.skip(k+1, end)].Class == words.Verb {
			r.player()
			return k + 1
		}
		if i > 0 && r.tokens[i-1].Class == words.Placing && len(r.subject) > 0 && r.subject[0] != thePlayer {
			r.state(mention{v: words.Equal, h: words.Equal, ref: thePlayer})
		}
		return k + 1
	case words.Direction, words.Precise, words.Along:
		r.possess = true
		return k
	case words.Object: // my goal is to …
		if k+3 < end && r.tokens[k+1].Class == words.Verb && r.tokens[k+2].Class == words.Toward && !r.leadsToDirection(k+3, end) {
			return k + 1
		}
		return k
	case words.Same:
		return k
	}
	return i + 1
}

// player makes the player the subject.
func (r *reader) player() { r.begin([]int{thePlayer}, false) }

// playerSubject reads the player at i, with the word after it at k.
func (r *reader) playerSubject(i, k, end int) int {
	if r.tokens[i].A == words.Reflexive || r.before(i) == words.Seeing && len(r.subject) > 0 && r.subject[0] != thePlayer {
		r.player()
		return i + 1
	}
	if i > 0 && r.joins(i) && len(r.subject) > 0 && r.subject[0] != thePlayer && len(r.mentions) == 0 && !r.placed {
		r.together = true
		return i + 1
	}
	if i > 0 && k < end && r.tokens[k].Class == words.Verb && r.withNext(i-1) && len(r.subject) > 0 && r.subject[0] >= 0 && len(r.mentions) == 0 && !r.placed {
		r.together = true // the target together with me is …
		return i + 1
	}
	if r.tokens[i].Text == "we" && len(r.subject) == 1 && r.subject[0] >= 0 && k < end && (r.tokens[k].Class == words.Verb || r.tokens[k].Class == words.Share) && r.sameNext(k+1, end) {
		r.begin([]int{r.subject[0]}, false) // "the goal is to the right, we are in the same row"
		r.together = true
		return k
	}
	if k+1 < end && r.tokens[k].Class == words.And {
		if ids, next := r.phrase(k+1, end); ids != nil && next < end && r.tokens[next].Class == words.Verb {
			r.begin(ids, false)
			r.together = true
			return next
		}
	}
	for k < end && (r.tokens[k].Class == words.Filler || r.tokens[k].Class == words.Doubt) {
		k++
	}
	r.observer = r.observer || k < end && r.tokens[k].Class == words.Seeing
	if k+1 < end && r.tokens[k].Class == words.Cell && r.tokens[k+1].Class == words.Comma && r.tokens[k+1].Text != "," {
		r.player() // player position: (3, 4)
		return k + 1
	}
	if k+1 < end && r.tokens[k].Class == words.Line && r.tokens[k+1].Class == words.Number {
		r.player() // the player, row 3
		return i + 1
	}
	if k < end && (r.tokens[k].Class == words.Verb || r.tokens[k].Class == words.Comma && r.tokens[k].Text != "," && r.before(i) != words.Linking && r.before(i) != words.Toward || r.tokens[k].Class == words.Placing && k == i+1) {
		r.player()
		return i + 1
	}
	if k == i+1 && k < end && r.tokens[k].Class == words.Direction && len(r.subject) == 0 && len(r.mentions) == 0 && (i == 0 || r.tokens[i-1].Class == words.Stop) {
		if ref, _ := r.reference(k+1, end, true); ref >= 0 {
			r.player() // me under the box
			return i + 1
		}
	}
	if k+1 < end && r.tokens[k].Class == words.Comma && r.tokens[k+1].Class == words.Verb {
		r.player() // I, the player, am …
		return i + 1
	}
	if k == i+1 && i > 0 && len(r.subject) == 0 && r.tokens[i].B == words.NounWord && r.before(i) == words.Foreign && r.shows(i) && r.leadsToDirection(k, end) {
		r.player() // the image shows the player above …
		return i + 1
	}
	if r.afterVerb(i) && len(r.mentions) > 0 && len(r.subject) == 0 && !(k < end && r.tokens[k].Class == words.Seeing) {
		r.player() // "below the target am I"
		return i + 1
	}
	return i + 1
}

// shows reports whether "shows" is the last word before i that is not a filler.
func (r *reader) shows(i int) bool {
	for i--; i > 0 && r.tokens[i].Class == words.Filler; i-- {
	}
	return r.tokens[i].Text == "shows" || r.tokens[i].Text == "show"
}

// sameNext reports whether words such as "in the same row" are next.
func (r *reader) sameNext(i, end int) bool {
	for i < end && (r.tokens[i].Class == words.Placing || r.tokens[i].Class == words.Filler || r.tokens[i].Class == words.Several) {
		i++
	}
	return i < end && (r.tokens[i].Class == words.Same || r.tokens[i].Class == words.Line || r.tokens[i].Class == words.Level || r.tokens[i].Class == words.Along)
}

// relate reads "relative to me".
func (r *reader) relate(i, end int) int {
	if i+1 < end && r.tokens[i+1].Class == words.Cell {
		return i + 2 // relative position
	}
	if i+1 < end && r.tokens[i+1].Class == words.Foreign {
		return i + 1 // relative bearing
	}
	if ref, next := r.reference(i, end, false); ref != noReference {
		r.base = ref
		return next
	}
	return i + 1
}

// skipReference skips an object that only says where something else is.
func (r *reader) skipReference(i, end int) int {
	for i < end && (r.tokens[i].Class == words.Toward || r.tokens[i].Class == words.Filler || r.tokens[i].Class == words.Linking) {
		i++
	}
	for i < end && r.tokens[i].Class == words.Direction {
		i++ // near the top
	}
	for i < end {
		next := i
		if r.tokens[i].Class == words.Player {
			next = r.afterPlayer(i+1, end)
		} else if ids, after := r.phrase(i, end); ids != nil {
			next = after
			if len(r.subject) == 0 || r.subject[0] == thePlayer {
				r.recent = append(r.recent[:0], ids...)
			}
		}
		if next == i {
			return i
		}
		i = next
		if i+1 < end && r.tokens[i].Class == words.And && r.tokens[r.skip(i+1, end)].Class == words.Player {
			i++
			continue
		}
		return i
	}
	return i
}

// from reads "from me to the goal" and "seen from the box".
func (r *reader) from(i, end int) int {
	if i+1 < end && r.tokens[i+1].B == words.HereWord && r.tokens[i+1].Class == words.Filler {
		return i + 2
	}
	if k := r.skip(i+1, end); r.before(i) == words.Line && r.tokens[k].Class == words.Direction && (r.tokens[k+1].Class == words.And || r.closes(k+1, end)) {
		return k + 1 // the second row from the top
	}
	ref, next := r.reference(i, end, false)
	if ref == noReference || ref == otherwiseLocated {
		return i + 1
	}
	if next < end && r.tokens[next].Class == words.Toward {
		if r.tokens[min(next+1, end)].Class == words.Player || r.tokens[r.skip(next+1, end)].Class == words.Player {
			r.player()
			r.base, r.fromTo = ref, true
			return r.skip(next+1, end) + 1
		}
		if ids, after := r.phrase(next+1, end); ids != nil {
			r.begin(ids, false)
			r.base, r.fromTo = ref, true
			return after
		}
	}
	r.base = ref
	if next < end && r.tokens[next].Class == words.Possessive {
		next++
	}
	return next
}

// toward reads "to" and "on": with an object, that is where the subject is or goes.
func (r *reader) toward(i, end int) int {
	on := r.tokens[i].Class == words.Placing
	if next := i; !on {
		if next = r.purpose(i, end); next > 0 {
			return next
		}
	}
	if len(r.subject) == 0 && on {
		return i + 1
	}
	ids, next := r.phrase(i+1, end)
	if ids == nil || r.tokens[next-1].Class != words.Object && r.tokens[next-1].Class != words.Cell && r.tokens[next-1].Class != words.Number {
		if on && r.tokens[r.skip(i+1, end)].Class == words.Player && len(r.subject) > 0 && r.subject[0] != thePlayer {
			k := r.skip(i+1, end)
			if k+1 >= end || r.tokens[k+1].Class != words.Possessive {
				return k + 1
			}
		}
		return i + 1
	}
	if next < end && r.tokens[next].Class == words.Possessive && r.leadsToDirection(next+1, end) {
		r.owner = ids[0] // to the box's left
		return next + 1
	}
	if r.tokens[i].A == words.OntoWord {
		if r.leadsToDirection(next, end) {
			return i + 1 // push it onto the target to my left
		}
		return next
	}
	if next+1 < end && r.tokens[next].Class == words.Comma && r.tokens[next+1].Class == words.Filler && r.tokens[next+1].B == words.WhichWord {
		return i + 1 // "… and at the box, which is below me"
	}
	if r.relativeClause(next, end) > 0 && (len(r.subject) == 0 || r.subject[0] != thePlayer || r.inside) {
		return i + 1 // "without falling in the hole that is below me"
	}
	if on && len(r.subject) > 0 && r.subject[0] == thePlayer {
		r.state(mention{v: words.Equal, h: words.Equal, ref: ids[0]})
	} else if len(r.subject) == 0 {
		if i > 0 && bearings[r.tokens[i-1].Text] && len(r.mentions) == 0 && next < end && (r.tokens[next].Class == words.Verb || r.tokens[next].Class == words.Comma || r.tokens[next].Text == "leads" || r.tokens[next].Text == "goes" || r.tokens[next].Class == words.Acting && r.tokens[next].A == words.GoesWord) {
			r.steps = r.tokens[next].Class == words.Acting
			return i + 1
		}
		r.recent = append(r.recent[:0], ids...)
	}
	return next
}

// bearings are words whose "to" leads to the object that they are about, as in "the bearing to
// the goal is south".
var bearings = map[string]bool{"bearing": true, "distance": true, "way": true, "path": true, "route": true, "heading": true, "offset": true, "displacement": true, "direction": true, "vector": true}

// before returns the class of the last token before i that is not a filler.
func (r *reader) before(i int) words.Class {
	for i--; i >= 0; i-- {
		if r.tokens[i].Class != words.Filler {
			return r.tokens[i].Class
		}
	}
	return words.Stop
}
