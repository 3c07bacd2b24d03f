package prose

// direction reads directions such as "above", "to the upper left of me" or "north and
// west", up to their reference.
func (r *reader) direction(i, end int) int {
	t := &r.tokens[i]
	if r.noise(i, end) {
		return i + 1
	}
	if i+1 < end && t.b == after && t.a == 0 && r.tokens[i+1].class == direction && r.tokens[i+1].a>>4 == takesReference {
		r.precise = true // right above
		return i + 1
	}
	if i+2 < end && r.tokens[i+1].class == line && r.tokens[i+2].class == filler && r.tokens[i+2].b == indexWord && t.a>>4 == 0 && t.b == 0 {
		m := mention{ref: noReference} // a higher row number is further down
		m.order(r.tokens[i+1].a, opposite(t.a&0xf))
		next := i + 3
		if ref, after := r.reference(next, end, false); ref != noReference {
			m.ref, next = ref, after
		}
		r.state(m)
		return next
	}
	if i+1 < end && (r.tokens[i+1].class == part || r.tokens[i+1].class == line) {
		if ref, next := r.reference(i+2, end, false); r.tokens[i+1].class == line && ref != noReference { // in a higher row than mine
			r.state(mention{v: t.a & 0xf, h: t.b, ref: ref})
			return next
		}
		return i + 2 // the left column, the upper left corner: places on the board
	}
	r.ofNoun(i)
	m := mention{v: t.a & 0xf, h: t.b, exact: r.precise && !r.ofLine(i), ref: noReference}
	prepositional := t.a>>4 != 0
	next := i + 1
	for next < end && r.tokens[next].class == direction && !r.noise(next, end) { // upper left, down south
		d := &r.tokens[next]
		if d.a&0xf != 0 && m.v != 0 && d.a&0xf != m.v || d.b != 0 && m.h != 0 && d.b != m.h {
			break
		}
		m.v, m.h = m.v|d.a&0xf, m.h|d.b
		prepositional = d.a>>4 != 0
		next++
	}
	if next < end && r.tokens[next].class == part {
		ref, after := r.reference(next+1, end, false)
		if ref != thePlayer { // a place on the board
			return next + 1
		}
		m.ref = ref
		r.state(m)
		return after
	}
	r.precise = false
	if i > 0 && r.tokens[i-1].class == pronoun && r.tokens[i-1].b == own { // on its left
		m.ref = r.antecedent()
	} else if r.possess {
		m.ref = thePlayer
	} else if ref, after := r.reference(next, end, prepositional); ref != noReference {
		m.ref, next = ref, after
	}
	r.state(m)
	return r.moreReferences(m, next, end)
}

// ofNoun makes a word that is not known the subject of the direction at i: "the wall above
// me".
func (r *reader) ofNoun(i int) {
	k := i - 1
	for k >= 0 && (r.tokens[k].class == foreign || r.tokens[k].class == part) {
		k--
	}
	if k < 0 || k == i-1 || r.tokens[k].class != filler || r.tokens[k].b != 0 || len(r.subject) > 0 || len(r.mentions) > 0 {
		return
	}
	r.begin([]int{r.entity("", 0, 1)}, false)
}

// ofLine reports whether the direction at i says which row or column is meant: "the row
// directly above mine".
func (r *reader) ofLine(i int) bool {
	for i--; i >= 0; i-- {
		switch r.tokens[i].class {
		case precise, filler, toward:
			continue
		}
		return r.tokens[i].class == line && (i == 0 || r.tokens[i-1].class != same)
	}
	return false
}

// moreReferences reads "and the hole" in "I am above the goal and the hole".
func (r *reader) moreReferences(m mention, i, end int) int {
	for m.ref >= 0 && len(r.subject) > 0 && r.subject[0] == thePlayer && i+1 < end && r.tokens[i].class == and {
		ids, next := r.phrase(i+1, end)
		if ids == nil || next < end && r.tokens[next].class != comma && r.tokens[next].class != and {
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
	takes := r.tokens[i].a == takesObject
	for i++; i < end; i++ {
		switch t := &r.tokens[i]; t.class {
		case filler:
			continue
		case number, unit, line, cell:
			if r.tokens[i].class == number && !r.measures(i+1, end) {
				return i
			}
			continue
		case toward:
			if r.leadsToDirection(i+1, end) {
				continue
			}
		case direction:
			continue
		case and:
			if j := r.skip(i+1, end); r.tokens[j].class == direction && !r.referred(j+1, end) {
				continue
			}
		case object, pronoun:
			if takes {
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

// noise reports whether "left" or "right" at i is not a direction: "nothing left to eat".
func (r *reader) noise(i, end int) bool {
	t := &r.tokens[i]
	if t.a>>4 == overWord && i+1 < end && (r.tokens[i+1].class == toward || r.tokens[i+1].class == placing || r.tokens[i+1].class == direction) {
		return true // over to the left
	}
	if t.a>>4 == edgeWord {
		near := func(k int) bool { return k >= 0 && k < end && r.tokens[k].class == direction && r.tokens[k].b != 0 }
		return !near(i-1) && !near(i+1)
	}
	if i > 0 && r.tokens[i-1].class == foreign && described[r.tokens[i-1].text] && !r.referred(i+1, end) {
		return true // as described above
	}
	if t.a != 0 && t.b == 0 && i+1 < end && r.tokens[i+1].class == foreign && r.tokens[i+1].text == "ahead" {
		return true // up ahead
	}
	if t.a != 0 && t.b == 0 && t.a>>4 == 0 && i > 0 && r.tokens[i-1].class == foreign && phrasal[r.tokens[i-1].text] {
		return true // to sum up
	}
	if t.a != 0 || t.b == 0 {
		return t.a>>4 == 0 && i > 0 && i+1 < end && r.tokens[i+1].class == object && r.tokens[i-1].class == filler && r.tokens[i-1].b == 0
	}
	if t.b == after && i+1 < end {
		switch n := &r.tokens[i+1]; {
		case n.class == beside, n.class == filler && n.b == hereWord && r.tokens[i+2].class != verb, n.class == placing && i+2 < end && r.tokens[i+2].class == foreign, n.class == foreign && n.text == "ahead":
			return true // right next to, right here
		}
	}
	if i+1 >= end {
		return i > 0 && r.tokens[i-1].class == object && r.follows(i)
	}
	if n := &r.tokens[i+1]; t.b == after && i > 0 && r.tokens[i-1].class == filler && (n.class == filler && n.b == timeWord || n.class == acting || n.class == unit) {
		return true // the right time, the right move
	}
	switch n := &r.tokens[i+1]; n.class {
	case foreign:
		if i > 1 && r.tokens[i-1].class == filler && r.tokens[i-2].class != toward && r.tokens[i-2].class != placing || i == 1 && r.tokens[0].class == filler {
			return true // the left sock
		}
		return n.text == "away" || t.b == after && n.text == "answer"
	case possessive:
		return i > 0 && r.tokens[i-1].class == player
	case filler:
		return i > 0 && r.tokens[i-1].class == player && r.tokens[i-1].text == "" && t.b == before && n.a != indefinite
	case object:
		return t.a>>4 != takesReference && i > 0 && r.tokens[i-1].class == filler && r.tokens[i-1].b == 0 // the upper hole
	case toward:
		if i+2 >= end {
			return false
		}
		switch c := r.tokens[i+2].class; c {
		case verb, foreign, seeing, acting, address, sureness:
			return true // two holes left to think about
		}
	}
	return false
}

// described are words after which "above" and "below" mean a place in the text.
var described = map[string]bool{"described": true, "stated": true, "mentioned": true, "listed": true, "shown": true, "explained": true, "written": true, "noted": true,
	"given": true, "discussed": true, "defined": true, "specified": true, "said": true, "see": true}

// phrasal are verbs that "up" and "down" belong to.
var phrasal = map[string]bool{"sum": true, "summing": true, "wrap": true, "wrapping": true, "add": true, "adding": true, "set": true, "give": true, "giving": true, "calm": true, "slow": true,
	"write": true, "break": true, "breaking": true}

// reference reads what a direction refers to. Without bare, it must follow a word such
// as "of" or "than".
func (r *reader) reference(i, end int, bare bool) (ref, next int) {
	linked := bare
	for k := i; k < end; k++ {
		t := &r.tokens[k]
		switch t.class {
		case linking:
			linked, bare = true, false
			continue
		case relating:
			linked, bare = true, false
			continue
		case toward:
			if !linked || bare {
				return noReference, i
			}
			continue
		case filler:
			continue
		case player:
			if !linked {
				return noReference, i
			}
			return thePlayer, r.afterPlayer(k+1, end)
		case possessive:
			if linked && k+1 < end {
				return thePlayer, r.afterPlayer(k, end)
			}
			return noReference, i
		case cell, line: // of the cell that I am in
			if linked && !bare && r.mine(k+1, end) {
				return thePlayer, r.afterMine(k+1, end)
			}
			if linked && !bare {
				return otherwiseLocated, k + 1
			}
			return noReference, i
		case pronoun:
			if !linked {
				return noReference, i
			}
			return r.antecedent(), k + 1
		case part, foreign, level:
			if linked && (t.class != level || bare) {
				return otherwiseLocated, k + 1
			}
			return noReference, i
		case object, number, ordinal, other, several, alternative:
			if !linked {
				return noReference, i
			}
			ids, after := r.phrase(k, end)
			if ids == nil {
				if t.class == number || t.class == several {
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
	if i < end && r.tokens[i].class == possessive {
		i++
	}
	for i < end && r.tokens[i].class == filler && r.tokens[i].b == ownWord {
		i++
	}
	if i < end && (r.tokens[i].class == cell || r.tokens[i].class == line) && i > 0 && r.tokens[i-1].class != player {
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
		switch r.tokens[k].class {
		case filler, placing:
		case linking:
			linked = true
		case player:
			next := k + 1
			if next < end && r.tokens[next].class == verb {
				next++
				for next < end && (r.tokens[next].class == placing || r.tokens[next].class == filler && r.tokens[next].a == 0 && r.tokens[next].text == "") {
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
		switch r.tokens[i].class {
		case stop, question, comma, and:
			return false
		case verb, foreign, toward:
			return true
		}
	}
	return false
}
