package prose

import "vagen/reward/judge/internal/words"

// implied reads "the first one", "the other" and "one" for objects named before.
func (r *reader) implied(i, end int) ([]int, int) {
	t := &r.tokens[i]
	next := i + 1
	if next < end && r.tokens[next].Class == words.Number && r.tokens[next].N == 1 {
		next++
	}
	switch r.tokens[r.skip(next, end)].Class {
	case words.Verb, words.Direction, words.Toward, words.Placing, words.Same, words.Precise, words.Stop, words.Question:
	case words.Number, words.Line:
		if k := r.skip(next, end); t.Class == words.Number || !r.measures(k, end) && !r.measures(k+1, end) {
			return nil, i
		}
	case words.Foreign:
		if t.Class != words.Other || !r.leadsToPlace(next+1, end) {
			return nil, i
		}
	default:
		return nil, i // first of all, on the other hand
	}
	switch t.Class {
	case words.Ordinal:
		return r.fromList(t.N-1, false), next
	case words.Other:
		if len(r.listed) == 2 {
			if len(r.recent) == 1 && r.recent[0] == r.listed[0] {
				return []int{r.listed[1]}, next
			}
			return []int{r.listed[0]}, next
		}
		if len(r.recent) > 0 {
			r.uniques++
			return []int{r.entity(r.entities[r.recent[0]].kind, -r.uniques, 1)}, next
		}
	case words.Number:
		if len(r.recent) > 0 && t.N == 1 && r.entities[r.recent[0]].label < 0 && r.tokens[i+1].Class == words.Verb {
			r.plural = r.entities[r.recent[0]].kind // "one box is above me, one is …"
		}
		if !r.measured && r.plural != "" && t.N > 0 {
			r.uniques++
			return []int{r.entity(r.plural, -r.uniques, min(t.N, maxCount))}, i + 1
		}
	}
	return nil, i
}

// pronoun reads "it" and "they" as the objects spoken of last.
func (r *reader) pronoun(i, end int) int {
	if m := (mention{}); r.tokens[i].B == words.Own && i+1 < end && r.tokens[i+1].Class == words.Line && len(r.subject) > 0 && r.subject[0] == thePlayer && r.tokens[min(i+2, end)].Class != words.Verb {
		m.set(r.tokens[i+1].A) // in its column
		m.ref = r.antecedent()
		r.state(m)
		return i + 2
	}
	if r.tokens[i].B == words.Own && r.leadsToDirection(i+1, end) && !r.means(i, end) {
		return i + 1 // to its left
	}
	if r.exists(i, end) {
		r.tokens[i+1].Lexeme = words.Lexeme{Class: words.Verb}
		return i + 1
	}
	if r.spokenOf == thePlayer && len(r.subject) == 0 && i+2 < end && r.tokens[i+1].Class == words.Verb && r.tokens[i+2].Class == words.Filler && r.tokens[i+2].B == words.TooWord {
		r.player() // the player is above the box. It is also …
		return i + 1
	}
	if len(r.recent) == 0 || r.base >= 0 && len(r.subject) > 0 || r.fromTo {
		return i + 1
	}
	if len(r.subject) > 0 && len(r.mentions) == 0 && r.subject[0] == r.recent[0] && !r.negated {
		return i + 1
	}
	kept := append([]int(nil), r.recent...)
	r.begin(kept, false)
	return i + 1
}

// means reports whether "its" at i means "it is", as in "its on my left".
func (r *reader) means(i, end int) bool {
	switch c := r.before(i); c {
	case words.Comma, words.Stop, words.Question, words.And, words.But:
		t := &r.tokens[i+1]
		return t.Class == words.Toward || t.Class == words.Placing || t.Class == words.Precise || t.Class == words.Direction && t.A>>4 == words.TakesReference
	}
	return false
}

// exists reports whether "it has a box", which learners write for "there is a box", is at i.
func (r *reader) exists(i, end int) bool {
	if i+2 >= end || r.tokens[i].B == words.Own || r.tokens[i+1].Class != words.Seeing || r.tokens[i+1].Text != "has" && !(r.tokens[i+1].Text == "have" && r.tokens[i].Class == words.Filler) {
		return false
	}
	t := &r.tokens[i+2]
	if t.Class != words.Number && !(t.Class == words.Filler && t.A == words.Indefinite) {
		return false
	}
	k := r.skip(i+2, end)
	if r.tokens[k].Class == words.Number {
		k = r.skip(k+1, end)
	}
	return k < end && r.tokens[k].Class == words.Object
}

// quantity reads a distance, which says nothing unless it is zero.
func (r *reader) quantity(i, end int) (int, bool) {
	t := &r.tokens[i]
	next := r.skip(i+1, end)
	if next >= end {
		return 0, false
	}
	switch r.tokens[next].Class {
	case words.Unit, words.Line, words.Cell:
		if l := &r.tokens[next]; t.N == 1 && next == i+1 && l.Class == words.Line && next+1 < end && r.withNext(next+1) && r.before(i) == words.Placing {
			if ref, after := r.reference(next+1, end, true); ref != noReference { // in one row with me
				m := mention{ref: ref}
				m.set(l.A)
				r.state(m)
				return after, true
			}
		}
		r.measured = true
		if t.N == 0 {
			return r.distance(next, end), true
		}
		return next + 1, true
	case words.Direction, words.Toward, words.Placing:
		if t.N == 0 && next == i+1 && r.tokens[next].Class == words.Direction {
			return r.distance(i, end), true // zero left
		}
		if r.measured || r.plural == "" || r.single && len(r.mentions) == 0 && len(r.subject) > 0 {
			r.measured = true
			return i + 1, true
		}
	}
	return 0, false
}

// distance reads zero rows or columns: the object is in the same one.
func (r *reader) distance(i, end int) int {
	m := mention{ref: noReference}
	switch t := &r.tokens[i]; {
	case t.Class == words.Line && t.A == words.RowAxis:
		m.v = words.Equal
	case t.Class == words.Line:
		m.h = words.Equal
	}
	i++
	for ; i < end; i++ {
		switch t := &r.tokens[i]; t.Class {
		case words.Or, words.Filler, words.Toward, words.Placing, words.And:
			if t.Class == words.And && !(i+1 < end && r.tokens[i+1].Class == words.Direction) {
				break
			}
			continue
		case words.Direction:
			if m.v == 0 && m.h == 0 { // zero steps up
				if t.A&0xf != 0 {
					m.v = words.Equal
				} else {
					m.h = words.Equal
				}
			}
			continue
		}
		break
	}
	if m.v|m.h != 0 {
		was := r.negated
		r.negated = false
		r.state(m)
		r.negated = was
	}
	return i
}
