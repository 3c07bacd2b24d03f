package prose

// equal reads "the same row", "the same row and column as me", "the same cell".
func (r *reader) equal(i, end int) int {
	m := mention{ref: noReference}
	axis := uint8(0)
	k := i + 1
loop:
	for ; k < end; k++ {
		t := &r.tokens[k]
		switch t.class {
		case filler, same:
		case along:
			axis = t.a
		case line:
			m.set(t.a)
		case cell:
			m.v, m.h = equal, equal
		case level:
			switch {
			case t.a == aligned && axis != 0:
				m.set(axis)
			case t.a != aligned:
				m.v = equal
			}
		case and:
			if r.respective {
				break loop
			}
			if j := r.skip(k+1, end); m.v|m.h == 0 || j >= end || r.tokens[j].class != line && !(r.tokens[j].class == same && j+1 < end && r.tokens[j+1].class == line) {
				break loop
			}
		default:
			break loop
		}
	}
	if m.v|m.h == 0 {
		if next := r.sameHolds(i+1, end); next > 0 {
			return next
		}
		if ref, next := r.reference(i+1, end, false); ref != noReference { // the same as mine
			return next
		}
		return i + 1
	}
	r.precise = false
	if next := r.afterMine(k, end); next > k {
		m.ref, k = thePlayer, next
	} else if ref, next := r.reference(k, end, r.withNext(k)); ref != noReference {
		m.ref, k = ref, next
	} else if r.together {
		m.ref = thePlayer // the goal and I are in the same row
	} else if len(r.subject) > 1 && r.subject[0] != thePlayer {
		m.ref = otherwiseLocated // in the same row as each other
	}
	r.state(m)
	return k
}

// sameHolds reads "goes for the box" after "the same", and returns the index after it, or 0.
func (r *reader) sameHolds(i, end int) int {
	k := i
	for k < end && (r.tokens[k].class == acting && r.tokens[k].a == goesWord || r.tokens[k].class == verb || r.tokens[k].class == sureness) {
		k++
	}
	if k == i || k >= end || r.tokens[k].class != linking && !(r.tokens[k].class == filler && r.tokens[k].b == forWord) {
		return 0
	}
	ids, next := r.phrase(k+1, end)
	if ids == nil {
		return 0
	}
	r.begin(ids, false)
	r.likewise = true
	return next
}

func (m *mention) set(axis uint8) {
	if axis == rowAxis {
		m.v = equal
	} else {
		m.h = equal
	}
}

// withNext reports whether "with" is at i.
func (r *reader) withNext(i int) bool {
	return r.tokens[i].class == filler && r.tokens[i].b == withWord
}

// level reads "level with me" and "vertically aligned with me".
func (r *reader) level(i, end int) int {
	axis, found, k := uint8(0), false, i
	for ; k < end; k++ {
		t := &r.tokens[k]
		if t.class == along {
			axis = t.a
		} else if t.class == level {
			found = true
			if t.a != aligned {
				axis = rowAxis
			}
		} else if !(t.class == filler && t.b == 0 && t.a == 0 && k > i && k+1 < end && r.tokens[k+1].class == along) {
			break
		}
	}
	if !found {
		return max(k, i+1)
	}
	for _, other := range r.mentions { // "vertically above me and horizontally aligned"
		if axis == rowAxis && (other.v == before || other.v == after) {
			axis = columnAxis
		} else if axis == columnAxis && (other.h == before || other.h == after) {
			axis = rowAxis
		}
	}
	m := mention{ref: noReference}
	if axis != 0 {
		m.set(axis)
	}
	if r.possess {
		m.ref = thePlayer
	} else if ref, next := r.reference(k, end, r.withNext(k)); ref != noReference {
		m.ref, k = ref, next
		if k < end && axis == 0 && r.tokens[k].class == along { // aligned with me vertically
			m.set(r.tokens[k].a)
			k++
		}
	}
	if m.v|m.h == 0 {
		return k
	}
	r.state(m)
	return k
}

// shares reads "shares my row" and "shares a row with me".
func (r *reader) shares(i, end int) int {
	if i > 0 && r.tokens[i-1].class == player && len(r.subject) == 0 {
		r.player()
	}
	m, ours, k := mention{ref: noReference}, i > 0 && r.tokens[i-1].class == player, i+1
loop:
	for ; k < end; k++ {
		switch t := &r.tokens[k]; t.class {
		case filler, same, pronoun:
		case possessive:
			ours = true
		case player:
			ours = true
		case line:
			m.set(t.a)
		case cell:
			m.v, m.h = equal, equal
		case and:
			if k+1 < end && r.tokens[k+1].class != line {
				break loop
			}
		default:
			break loop
		}
	}
	if ref, next := r.reference(k, end, true); m.v|m.h != 0 && ref != noReference {
		m.ref, k = ref, next
		r.state(m)
	} else if ours && m.v|m.h != 0 {
		m.ref = thePlayer
		r.state(m)
	}
	return k
}

// line reads "row three", "the row I am in" and "its row is the same as mine".
func (r *reader) line(i, end int) int {
	axis := r.tokens[i].a
	if i+2 < end && r.tokens[i+1].class == comma && r.tokens[i+1].text == ":" && r.tokens[i+2].class == number { // row: 3
		r.locate(axis, r.tokens[i+2].n+1)
		return i + 3
	}
	if i+1 < end && r.tokens[i+1].class == number && !r.measures(i+2, end) || i+2 < end && r.tokens[i+1].class == number && r.tokens[i+2].class != direction && r.tokens[i+2].class != unit {
		r.locate(axis, r.tokens[i+1].n+1)
		return i + 2
	}
	if k := r.skip(i+1, end); k+1 < end && r.tokens[k].class == verb {
		switch t := &r.tokens[k+1]; {
		case t.class == number && (k+2 >= end || !r.measures(k+2, end)): // its row is 3
			r.locate(axis, t.n+1)
			return k + 2
		case t.class == magnitude: // its row number is larger than mine
			r.numbered = axis
			return k + 1
		}
	}
	if k := i + 1; k < end && r.tokens[k].class == filler && r.tokens[k].b == indexWord && r.tokens[min(k+1, end)].class == number {
		r.locate(axis, r.tokens[k+1].n+1)
		return k + 2
	}
	m := mention{ref: thePlayer}
	m.set(axis)
	if next := r.afterMine(i+1, end); next > i+1 {
		if next < end && r.tokens[next].class == comma && r.tokens[next].text == ":" {
			return next // "row of the player: 3"
		}
		r.state(m)
		return next
	}
	if k := i + 1; k+1 < end && r.tokens[k].class == verb {
		if r.tokens[k].b == equalsWord {
			if ref, next := r.reference(k+1, end, true); ref != noReference {
				m.ref = ref
				r.state(m)
				return next
			}
		}
		k = r.skip(k+1, end)
		if k < end && (r.tokens[k].class == same || r.tokens[k].class == linking) {
			if ref, next := r.reference(k+1, end, r.tokens[k].class == linking); ref != noReference {
				m.ref = ref
				r.state(m)
				return next
			}
		}
		if k < end && r.tokens[k].class == possessive {
			r.state(m)
			return k + 1
		}
	}
	return i + 1
}
