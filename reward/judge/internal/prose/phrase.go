package prose

import "vagen/reward/judge/internal/words"

// spot is the word in "target spot".
var spot = words.Lexicon["spot"]

// maxCount limits the objects that one phrase can stand for.
const maxCount = 16

// phrase reads a noun phrase for objects, such as "the first hole", "boxes 1 and 2" or
// "three holes". It returns the entities and the index after it; nil if there is none.
func (r *reader) phrase(i, end int) (ids []int, next int) {
	if ids, next = r.nounPhrase(i, end); ids != nil {
		r.nouns, r.nounEnd = append(r.nouns[:0], ids...), next
	}
	return ids, next
}

func (r *reader) nounPhrase(i, end int) (ids []int, next int) {
	label, count, unique, all, definite := 0, 1, false, false, true
	counted, both := false, false
	for ; i < end; i++ {
		switch t := &r.tokens[i]; t.Class {
		case words.Filler:
			if t.A == words.Indefinite {
				unique, definite = true, false
			}
			continue
		case words.Linking: // "two of the holes"
			if !counted {
				return nil, i
			}
			continue
		case words.Number:
			if t.N < 1 {
				return nil, i
			}
			count, counted = min(t.N, maxCount), true
			unique = t.N == 1
			continue
		case words.Ordinal:
			if ids, next := r.ordinals(i, end); ids != nil {
				return ids, next
			}
			label, counted = t.N, true
			continue
		case words.Other:
			unique, definite, counted = true, false, true
			continue
		case words.Several:
			all, counted, both = true, true, t.A == words.OfTwo
			continue
		case words.Object:
			all = all && (t.Many || !both) // "both the goal and the hole"
			return r.named(i, end, label, count, unique, all, definite, counted)
		case words.Alternative:
			return r.fromList(t.N - 1), i + 1
		}
		break
	}
	return nil, i
}

// named returns the entities of a noun phrase whose noun is at i.
func (r *reader) named(i, end, label, count int, unique, all, definite, counted bool) ([]int, int) {
	t := &r.tokens[i]
	next := i + 1
	if next < end && r.tokens[next].Class == words.Object && r.tokens[next].Kind == t.Kind || next < end && r.tokens[next].Class == words.Cell || next < end && r.tokens[next].Lexeme == spot {
		next++ // target spot, goal tile
	}
	if next < end && r.tokens[next].Class == words.Foreign && compounds[r.tokens[next].Text] {
		return nil, i // the box office
	}
	if all || t.Many && !counted && label == 0 && definite {
		if n := r.inState(t.Kind); n > 0 && (all || i > 0 && r.tokens[i-1].Class == words.Filler) {
			count = min(n, maxCount)
		}
	}
	if label == 0 && count == 1 && next < end && r.tokens[next].Class == words.Number && !r.measures(next+1, end) {
		ids := []int{r.entity(t.Kind, r.tokens[next].N, 1)}
		next++
		for next+1 < end && (r.tokens[next].Class == words.And || r.tokens[next].Class == words.Comma) && r.tokens[next+1].Class == words.Number && !r.measures(next+2, end) {
			ids = append(ids, r.entity(t.Kind, r.tokens[next+1].N, 1))
			next += 2
		}
		return ids, next
	}
	many := t.Many
	if label == 0 && count == 1 && !many && (r.fresh(i) || r.entry(i, next, end)) {
		unique = true
	}
	if i > 1 && r.tokens[i-1].Class == words.Direction && r.tokens[i-2].Class == words.Filler && label == 0 && count == 1 {
		label = sideLabel + int(r.tokens[i-1].A&0xf)<<2 + int(r.tokens[i-1].B) // the upper hole
	}
	if letter := r.lettered(next, end); letter > 0 && label == 0 && count == 1 {
		label, next = letter, next+1
	}
	r.plural, r.single = "", false
	if count > 1 || unique {
		r.plural, r.single = t.Kind, count == 1
	}
	switch {
	case label > 0:
	case count > 1 || unique:
		r.uniques++
		label = -r.uniques
	default:
		if only, ok := r.soleEntity(t.Kind); ok {
			return []int{only}, next
		}
	}
	id := r.entity(t.Kind, label, count)
	r.entities[id].many = many
	r.entities[id].bare = many && !counted && definite && label == 0 && !(i > 0 && r.tokens[i-1].Class == words.Filler && r.tokens[i-1].B == 0)
	return []int{id}, next
}

// closes reports whether a part of the sentence ends at i.
func (r *reader) closes(i, end int) bool {
	return i >= end || r.tokens[i].Class == words.Comma && !(r.tokens[min(i+1, end)].Class == words.Filler && r.tokens[min(i+1, end)].B == words.WhichWord) || r.tokens[i].Class == words.But
}

// ordinals reads "first and second hole".
func (r *reader) ordinals(i, end int) ([]int, int) {
	if i+2 >= end || r.tokens[i+1].Class != words.And {
		return nil, i
	}
	k := r.skip(i+2, end)
	if k+1 >= end || r.tokens[k].Class != words.Ordinal || r.tokens[k+1].Class != words.Object {
		return nil, i
	}
	kind := r.tokens[k+1].Kind
	return []int{r.entity(kind, r.tokens[i].N, 1), r.entity(kind, r.tokens[k].N, 1)}, k + 2
}

// lettered returns the label of "hole A", and 0 without one.
func (r *reader) lettered(i, end int) int {
	if i+1 >= end {
		return 0
	}
	t, n := &r.tokens[i], &r.tokens[i+1]
	if n.Class != words.Verb && n.Class != words.Comma {
		return 0
	}
	switch {
	case t.Class == words.Filler && t.A == words.Indefinite && t.Text == "a":
		return letterLabel
	case t.Class == words.Foreign && len(t.Text) == 1 && t.Text[0] >= 'b' && t.Text[0] <= 'f':
		return letterLabel + int(t.Text[0]-'a')
	}
	return 0
}

// sideLabel and the directions of its name are the label of "the upper hole".
const sideLabel = 1 << 22

// letterLabel is the label of object A. It is above the numbers that objects have.
const letterLabel = 1 << 21

// compounds are nouns that make another word of the one before them.
var compounds = map[string]bool{"office": true, "lunch": true, "plot": true, "keeper": true, "kick": true, "audience": true, "market": true, "group": true, "punch": true, "spring": true}

// measures reports whether a word at i makes a distance of the number before it.
func (r *reader) measures(i, end int) bool {
	if i >= end {
		return false
	}
	c := r.tokens[i].Class
	return c == words.Unit || c == words.Line || c == words.Cell || c == words.Direction || c == words.Toward
}

func (r *reader) soleEntity(kind string) (int, bool) {
	found := -1
	for i := range r.entities {
		if r.entities[i].kind == kind {
			if found >= 0 {
				if r.entities[i].label == 0 {
					return i, true
				}
				if r.entities[found].label == 0 {
					return found, true
				}
				return -1, false
			}
			found = i
		}
	}
	return found, found >= 0
}

// entity returns the index of an object, which it adds when it is new.
func (r *reader) entity(kind string, label, count int) int {
	for i := range r.entities {
		if r.entities[i].kind == kind && r.entities[i].label == label {
			return i
		}
	}
	r.entities = append(r.entities, entity{kind: kind, label: label, count: count})
	return len(r.entities) - 1
}

// fromList returns the k-th object of the last list; of a single kind, that object with
// the number k+1.
func (r *reader) fromList(k int) []int {
	if k < len(r.listed) && len(r.listed) > 1 {
		return []int{r.listed[k]}
	}
	if len(r.recent) > 0 {
		return []int{r.entity(r.entities[r.recent[0]].kind, k+1, 1)}
	}
	return nil
}

// begin starts a clause with a subject. inverted tells that a verb stands before it, as
// in "above me is the goal".
func (r *reader) begin(ids []int, inverted bool) {
	switch {
	case len(r.subject) == 0:
		r.fronted = len(r.mentions) > 0
		kept := r.negated
		mentions := append([]mention(nil), r.mentions...)
		r.flush()
		r.mentions = append(r.mentions, mentions...)
		r.ahead = len(mentions)
		r.negated = kept
	case len(r.mentions) > 0 && (inverted || r.fronted && ids[0] != thePlayer && len(r.mentions) > r.ahead && r.mentions[len(r.mentions)-1].part == r.part && r.mentions[r.ahead-1].part < r.part):
		cut := r.inversion()
		moved := append([]mention(nil), r.mentions[cut:]...)
		r.mentions = r.mentions[:cut]
		r.flush()
		r.mentions, r.fronted, r.ahead = append(r.mentions, moved...), true, len(moved)
	default:
		late := r.doubtAt >= 0 && r.doubtAt == len(r.mentions)
		if late {
			r.doubtful, r.nextDoubtful = r.wasDoubtful, true
		}
		r.flush()
		r.fronted = false
	}
	r.subject = append(r.subject[:0], ids...)
	r.doubtful, r.nextDoubtful = r.doubtful || r.nextDoubtful, false
	if ids[0] != thePlayer {
		r.recent = append(r.recent[:0], ids...)
		if len(ids) > 1 {
			r.listed = append(r.listed[:0], ids...)
		}
	}
}

// inversion returns the first of the mentions that belong to a subject after the verb.
func (r *reader) inversion() int {
	if r.fronted {
		return min(r.ahead, len(r.mentions))
	}
	last := r.mentions[len(r.mentions)-1].part
	cut := len(r.mentions)
	for cut > 0 && r.mentions[cut-1].part == last {
		cut--
	}
	return cut
}

// noun reads a noun phrase as the subject of what follows, or adds it to the subject.
func (r *reader) noun(i, end int) int {
	t := &r.tokens[i]
	switch t.Class {
	case words.Pronoun:
		return r.pronoun(i, end)
	case words.Number:
		if r.together && t.N == 1 && i+1 < end && r.tokens[i+1].Class == words.Line { // in one column
			m := mention{ref: thePlayer}
			m.set(r.tokens[i+1].A)
			r.state(m)
			return i + 2
		}
		if next, ok := r.quantity(i, end); ok {
			return next
		}
	case words.Ordinal:
		if i+1 < end && r.tokens[i+1].Class == words.Line {
			r.locate(r.tokens[i+1].A, t.N+1)
			return i + 2
		}
	}
	ids, next := r.phrase(i, end)
	if ids == nil {
		if n := len(r.entities); t.Class == words.Several && t.A == words.OfTwo && n > 1 && r.tokens[r.skip(i+1, end)].Class == words.Verb {
			r.begin([]int{n - 2, n - 1}, false) // both are …
			return i + 1
		}
		if t.Class == words.Filler || t.Class == words.Several {
			return i + 1
		}
		if ids, next = r.implied(i, end); ids == nil {
			return i + 1
		}
		if r.parent < 0 && len(r.subject) > 0 && r.subject[0] >= 0 && r.entities[r.subject[0]].count > 1 {
			r.parent = r.subject[0] // of the two holes, one is …
		}
		if r.parent >= 0 && len(ids) == 1 && ids[0] != r.parent && r.entities[ids[0]].kind == r.entities[r.parent].kind {
			r.begin(ids, false)
			e, of := &r.entities[ids[0]], &r.entities[r.parent]
			e.add(of.v, of.h)
			of.count = max(0, of.count-e.count)
			return next
		}
	}
	if next < end && r.tokens[next].Class == words.Possessive {
		if r.tokens[next].Text == "'" {
			return next + 1
		}
		if r.leadsToDirection(next+1, end) {
			switch r.before(i) {
			case words.Toward, words.Placing, words.Linking:
				return next + 1 // to the box's left
			}
			r.begin(ids, false) // the box's to the left
			r.placed = true
			return next + 1
		}
		next++ // the box's position
		if next < end && r.tokens[next].Class == words.Cell {
			next++
		}
	}
	if r.respective && r.fronted && len(r.subject) > 0 && r.subject[0] >= 0 && len(r.mentions) == r.ahead && r.joins(i) {
		r.subject = append(r.subject, ids...) // to my left and right are the goal and the hole
		return next
	}
	if r.fronted && len(r.subject) > 0 && r.subject[0] >= 0 && len(r.mentions) == r.ahead && r.joins(i) && r.closes(next, end) {
		r.subject = append(r.subject, ids...) // above me are the box and the target
		r.recent = append(r.recent[:0], r.subject...)
		r.listed = append(r.listed[:0], r.subject...)
		return next
	}
	joining := len(r.subject) > 0 && r.subject[0] != thePlayer && len(r.mentions) == 0 && !r.placed && i > 0
	if joining && r.joins(i) {
		r.subject = append(r.subject, ids...)
		r.recent = append(r.recent[:0], r.subject...)
		r.listed = append(r.listed[:0], r.subject...)
		return next
	}
	r.begin(ids, r.afterVerb(i))
	return next
}

// joins reports whether "and" or a comma stands before the phrase at i.
func (r *reader) joins(i int) bool {
	for i--; i >= 0; i-- {
		switch r.tokens[i].Class {
		case words.Filler:
			if r.tokens[i].B == words.WithWord && i > 0 && r.tokens[i-1].Text == "together" {
				return true
			}
			continue
		case words.And, words.Or:
			return true
		case words.But:
			return r.notOnly // not only the goal but also the hole
		case words.Linking: // as well as
			return i > 0 && r.tokens[i].A == words.AsWord && r.tokens[i-1].Class == words.Filler && r.tokens[i-1].B == words.WellWord
		case words.Comma:
			return r.tokens[i].Text == ","
		}
		return false
	}
	return false
}

// afterVerb reports whether a verb stands before the phrase at i.
func (r *reader) afterVerb(i int) bool {
	for i--; i >= 0; i-- {
		switch r.tokens[i].Class {
		case words.Filler:
			continue
		case words.Verb:
			return true
		case words.Comma:
			return r.tokens[i].Text == ":"
		}
		return false
	}
	return false
}

// inState returns the number of objects of a kind in the state.
func (r *reader) inState(kind string) (n int) {
	for i := range r.truth {
		if r.truth[i].Object == kind {
			n++
		}
	}
	return n
}
