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
		if r.nouns, r.nounEnd = append(r.nouns[:0], ids...), next; ids[0]+1 != r.lately[1] && r.tokens[i].Class != words.Alternative {
			r.lately = [2]int{r.lately[1], ids[0] + 1}
		}
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
			return r.fromList(t.N-1, true), i + 1
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
	many := t.Many
	if label == 0 && count == 1 && next < end && r.tokens[next].Class == words.Number && !r.measures(next+1, end) {
		ids := []int{r.entity(t.Kind, r.tokens[next].N, 1)}
		next++
		for next+1 < end && (r.tokens[next].Class == words.And || r.tokens[next].Class == words.Comma) && r.tokens[next+1].Class == words.Number && !r.measures(next+2, end) {
			ids = append(ids, r.entity(t.Kind, r.tokens[next+1].N, 1))
			next += 2
		}
		return ids, next
	}
	if label == 0 && count == 1 && !many && (r.fresh(i) || r.entry(i, next, end)) {
		unique = true
	}
	if i > 1 && r.tokens[i-1].Class == words.Direction && r.tokens[i-2].Class == words.Filler && label == 0 && count == 1 {
		label = sideLabel + int(r.tokens[i-1].A&0xf)<<2 + int(r.tokens[i-1].B) // the upper hole
	}
	if label == 0 && count == 1 && !many && !unique {
		label = r.placedLabel(i, next, end)
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

// placedLabel returns the label of "the hole to my left", where there may be another hole
// elsewhere, and of "the nearest hole"; 0 for others.
func (r *reader) placedLabel(i, next, end int) int {
	if i < 1 || r.tokens[next-1].Class != words.Object || r.tokens[i].Kind != "hole" && r.inState(r.tokens[i].Kind) < 2 {
		return 0
	}
	before := &r.tokens[i-1]
	switch {
	case before.Class == words.Beside, before.Class == words.Foreign && before.Text == "nearest":
		return nearLabel
	case before.Class == words.Foreign && (before.Text == "farthest" || before.Text == "furthest"), before.Class == words.Filler && before.B == words.MoreWord:
		return nearLabel + 1
	case before.Class == words.Comma, before.Class == words.Stop: // hole above, hole left
	case before.Class != words.Filler || before.A == words.Indefinite:
		return 0
	}
	k := next
	for k < end && (r.tokens[k].Class == words.Toward || r.tokens[k].Class == words.Placing || r.tokens[k].Class == words.Possessive || r.tokens[k].Class == words.Precise || r.tokens[k].Class == words.Filler && r.tokens[k].Text == "") {
		k++
	}
	if k >= end || r.tokens[k].Class != words.Direction {
		return 0
	}
	v, h := r.tokens[k].A&0xf, r.tokens[k].B
	if k+1 < end && r.tokens[k+1].Class == words.Direction {
		v, h = v|r.tokens[k+1].A&0xf, h|r.tokens[k+1].B
	}
	return sideLabel + int(v)<<2 + int(h)
}

// nearLabel is the label of the nearest object; the next one is that of the farthest.
const nearLabel = 1 << 23

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
func (r *reader) fromList(k int, alternative bool) []int {
	if k < len(r.listed) && len(r.listed) > 1 {
		return []int{r.listed[k]}
	}
	if n := &r.lately; alternative && len(r.listed) < 2 && n[0] > 0 && k < 2 {
		return []int{n[k] - 1}
	}
	if len(r.recent) > 0 {
		return []int{r.entity(r.entities[r.recent[0]].kind, k+1, 1)}
	}
	return nil
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
