package prose

// spot is the word in "target spot".
var spot = lexicon["spot"]

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
		switch t := &r.tokens[i]; t.class {
		case filler:
			if t.a == indefinite {
				unique, definite = true, false
			}
			continue
		case linking: // "two of the holes"
			if !counted {
				return nil, i
			}
			continue
		case number:
			if t.n < 1 {
				return nil, i
			}
			count, counted = min(t.n, maxCount), true
			unique = t.n == 1
			continue
		case ordinal:
			if ids, next := r.ordinals(i, end); ids != nil {
				return ids, next
			}
			label, counted = t.n, true
			continue
		case other:
			unique, definite, counted = true, false, true
			continue
		case several:
			all, counted, both = true, true, t.a == ofTwo
			continue
		case object:
			all = all && (t.many || !both) // "both the goal and the hole"
			return r.named(i, end, label, count, unique, all, definite, counted)
		case alternative:
			return r.fromList(t.n - 1), i + 1
		}
		break
	}
	return nil, i
}

// named returns the entities of a noun phrase whose noun is at i.
func (r *reader) named(i, end, label, count int, unique, all, definite, counted bool) ([]int, int) {
	t := &r.tokens[i]
	next := i + 1
	if next < end && r.tokens[next].class == object && r.tokens[next].kind == t.kind || next < end && r.tokens[next].class == cell || next < end && r.tokens[next].lexeme == spot {
		next++ // target spot, goal tile
	}
	if next < end && r.tokens[next].class == foreign && compounds[r.tokens[next].text] {
		return nil, i // the box office
	}
	if all || t.many && !counted && label == 0 && definite {
		if n := r.inState(t.kind); n > 0 && (all || i > 0 && r.tokens[i-1].class == filler) {
			count = min(n, maxCount)
		}
	}
	if label == 0 && count == 1 && next < end && r.tokens[next].class == number && !r.measures(next+1, end) {
		ids := []int{r.entity(t.kind, r.tokens[next].n, 1)}
		next++
		for next+1 < end && (r.tokens[next].class == and || r.tokens[next].class == comma) && r.tokens[next+1].class == number && !r.measures(next+2, end) {
			ids = append(ids, r.entity(t.kind, r.tokens[next+1].n, 1))
			next += 2
		}
		return ids, next
	}
	many := t.many
	if i > 1 && r.tokens[i-1].class == direction && r.tokens[i-2].class == filler && label == 0 && count == 1 {
		label = sideLabel + int(r.tokens[i-1].a&0xf)<<2 + int(r.tokens[i-1].b) // the upper hole
	}
	if letter := r.lettered(next, end); letter > 0 && label == 0 && count == 1 {
		label, next = letter, next+1
	}
	r.plural, r.single = "", false
	if count > 1 || unique {
		r.plural, r.single = t.kind, count == 1
	}
	switch {
	case label > 0:
	case count > 1 || unique:
		r.uniques++
		label = -r.uniques
	default:
		if only, ok := r.soleEntity(t.kind); ok {
			return []int{only}, next
		}
	}
	id := r.entity(t.kind, label, count)
	r.entities[id].many = many
	r.entities[id].bare = many && !counted && definite && label == 0 && !(i > 0 && r.tokens[i-1].class == filler && r.tokens[i-1].b == 0)
	return []int{id}, next
}

// ordinals reads "first and second hole".
func (r *reader) ordinals(i, end int) ([]int, int) {
	if i+2 >= end || r.tokens[i+1].class != and {
		return nil, i
	}
	k := r.skip(i+2, end)
	if k+1 >= end || r.tokens[k].class != ordinal || r.tokens[k+1].class != object {
		return nil, i
	}
	kind := r.tokens[k+1].kind
	return []int{r.entity(kind, r.tokens[i].n, 1), r.entity(kind, r.tokens[k].n, 1)}, k + 2
}

// lettered returns the label of "hole A", and 0 without one.
func (r *reader) lettered(i, end int) int {
	if i+1 >= end {
		return 0
	}
	t, n := &r.tokens[i], &r.tokens[i+1]
	if n.class != verb && n.class != comma {
		return 0
	}
	switch {
	case t.class == filler && t.a == indefinite && t.text == "a":
		return letterLabel
	case t.class == foreign && len(t.text) == 1 && t.text[0] >= 'b' && t.text[0] <= 'f':
		return letterLabel + int(t.text[0]-'a')
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
	c := r.tokens[i].class
	return c == unit || c == line || c == cell || c == direction || c == toward
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
	case inverted && len(r.mentions) > 0:
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
	switch t.class {
	case pronoun:
		return r.pronoun(i, end)
	case number:
		if r.together && t.n == 1 && i+1 < end && r.tokens[i+1].class == line { // in one column
			m := mention{ref: thePlayer}
			m.set(r.tokens[i+1].a)
			r.state(m)
			return i + 2
		}
		if next, ok := r.quantity(i, end); ok {
			return next
		}
	case ordinal:
		if i+1 < end && r.tokens[i+1].class == line {
			r.locate(r.tokens[i+1].a, t.n+1)
			return i + 2
		}
	}
	ids, next := r.phrase(i, end)
	if ids == nil {
		if n := len(r.entities); t.class == several && t.a == ofTwo && n > 1 && r.tokens[r.skip(i+1, end)].class == verb {
			r.begin([]int{n - 2, n - 1}, false) // both are …
			return i + 1
		}
		if t.class == filler || t.class == several {
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
	if next < end && r.tokens[next].class == possessive {
		if r.leadsToDirection(next+1, end) || r.tokens[next].text == "'" {
			return next + 1
		}
		next++ // the box's position
		if next < end && r.tokens[next].class == cell {
			next++
		}
	}
	if r.respective && r.fronted && len(r.subject) > 0 && r.subject[0] >= 0 && len(r.mentions) == r.ahead && r.joins(i) {
		r.subject = append(r.subject, ids...) // to my left and right are the goal and the hole
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
		switch r.tokens[i].class {
		case filler:
			if r.tokens[i].b == withWord && i > 0 && r.tokens[i-1].text == "together" {
				return true
			}
			continue
		case and, or:
			return true
		case but:
			return r.notOnly // not only the goal but also the hole
		case linking: // as well as
			return i > 0 && r.tokens[i].a == asWord && r.tokens[i-1].class == filler && r.tokens[i-1].b == wellWord
		case comma:
			return r.tokens[i].text == ","
		}
		return false
	}
	return false
}

// afterVerb reports whether a verb stands before the phrase at i.
func (r *reader) afterVerb(i int) bool {
	for i--; i >= 0; i-- {
		switch r.tokens[i].class {
		case filler:
			continue
		case verb:
			return true
		case comma:
			return r.tokens[i].text == ":"
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
