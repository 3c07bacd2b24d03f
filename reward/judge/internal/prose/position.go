package prose

import "vagen/reward/judge/internal/words"

// equal reads "the same row", "the same row and column as me", "the same cell".
func (r *reader) equal(i, end int) int {
	m := mention{ref: noReference}
	axis := uint8(0)
	k := i + 1
loop:
	for ; k < end; k++ {
		t := &r.tokens[k]
		switch t.Class {
		case words.Filler, words.Same:
		case words.Along:
			axis = t.A
		case words.Line:
			m.set(t.A)
		case words.Cell:
			if axis != 0 {
				m.set(words.ColumnAxis + words.RowAxis - axis) // the same vertical position
			} else {
				m.v, m.h = words.Equal, words.Equal
			}
		case words.Level:
			switch {
			case t.A == words.Aligned && axis != 0:
				m.set(axis)
			case t.A != words.Aligned:
				m.v = words.Equal
			}
		case words.And:
			if r.respective {
				break loop
			}
			if j := r.skip(k+1, end); m.v|m.h == 0 || j >= end || r.tokens[j].Class != words.Line && !(r.tokens[j].Class == words.Same && j+1 < end && r.tokens[j+1].Class == words.Line) {
				break loop
			}
		default:
			break loop
		}
	}
	if m.v|m.h == 0 && axis != 0 && r.tokens[k-1].Class == words.Along {
		m.set(axis) // in the same vertical as me
	}
	if m.v|m.h == 0 && r.axis != 0 {
		m.set(r.axis) // the player's column is the same as …
	}
	if m.v|m.h == 0 && r.closes(i+1, end) {
		for k := i - 1; k >= 0 && r.tokens[k].Class != words.Stop; k-- {
			if r.tokens[k].Class == words.Along { // horizontal relation: same
				m.set(words.ColumnAxis + words.RowAxis - r.tokens[k].A)
				break
			}
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
	for k < end && (r.tokens[k].Class == words.Acting && r.tokens[k].A == words.GoesWord || r.tokens[k].Class == words.Verb || r.tokens[k].Class == words.Sureness) {
		k++
	}
	if k == i || k >= end || r.tokens[k].Class != words.Linking && !(r.tokens[k].Class == words.Filler && r.tokens[k].B == words.ForWord) {
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
	if axis == words.RowAxis {
		m.v = words.Equal
	} else {
		m.h = words.Equal
	}
}

// withNext reports whether "with" is at i.
func (r *reader) withNext(i int) bool {
	return r.tokens[i].Class == words.Filler && r.tokens[i].B == words.WithWord
}

// level reads "level with me" and "vertically aligned with me".
func (r *reader) level(i, end int) int {
	axis, found, k := uint8(0), false, i
	for ; k < end; k++ {
		t := &r.tokens[k]
		if t.Class == words.Along {
			axis = t.A
		} else if t.Class == words.Level {
			found = true
			if t.A != words.Aligned {
				axis = words.RowAxis
			}
		} else if next := r.tokens[min(k+1, end)]; t.Class == words.Direction && t.B == 0 && k > i && r.tokens[k-1].Class == words.Level && (next.Class == words.Filler && next.B == words.WithWord || next.Class == words.Along) {
			continue // lines up with
		} else if !(t.Class == words.Filler && t.B == 0 && t.A == 0 && k > i && k+1 < end && r.tokens[k+1].Class == words.Along) {
			break
		}
	}
	if !found {
		return max(k, i+1)
	}
	for _, other := range r.mentions { // "vertically above me and horizontally aligned"
		if axis == words.RowAxis && (other.v == words.Before || other.v == words.After) {
			axis = words.ColumnAxis
		} else if axis == words.ColumnAxis && (other.h == words.Before || other.h == words.After) {
			axis = words.RowAxis
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
		if k < end && axis == 0 && r.tokens[k].Class == words.Along { // aligned with me vertically
			m.set(r.tokens[k].A)
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
	if r.before(i) == words.Player && len(r.subject) == 0 {
		r.player()
	}
	m, ours, k := mention{ref: noReference}, i > 0 && r.tokens[i-1].Class == words.Player, i+1
loop:
	for ; k < end; k++ {
		switch t := &r.tokens[k]; t.Class {
		case words.Filler, words.Same, words.Pronoun:
		case words.Possessive:
			ours = true
		case words.Player:
			ours = true
		case words.Line:
			m.set(t.A)
		case words.Cell:
			m.v, m.h = words.Equal, words.Equal
		case words.And:
			if k+1 < end && r.tokens[k+1].Class != words.Line {
				break loop
			}
		default:
			break loop
		}
	}
	if ref, next := r.reference(k, end, true); m.v|m.h != 0 && ref != noReference {
		m.ref, k = ref, next
		r.state(m)
		if j := r.skip(k+1, end); k < end && r.tokens[k].Class == words.And && r.tokens[j].Class == words.Line {
			return r.shares(j-1, end) // … and a column with the target
		}
	} else if ours && m.v|m.h != 0 {
		m.ref = thePlayer
		r.state(m)
	}
	return k
}

// thisLine reports whether the row or column at i is "this" or "this very" one.
func (r *reader) thisLine(i int) bool {
	for i--; i > 0 && r.tokens[i].Class == words.Filler; i-- {
		if r.tokens[i].Text == "this" {
			return r.tokens[i-1].Class == words.Placing
		}
	}
	return false
}

// line reads "row three", "the row I am in" and "its row is the same as mine".
func (r *reader) line(i, end int) int {
	axis := r.tokens[i].A
	if i+2 < end && r.tokens[i+1].Class == words.Comma && r.tokens[i+1].Text == ":" && r.tokens[i+2].Class == words.Number { // row: 3
		r.locate(axis, r.tokens[i+2].N+1)
		return i + 3
	}
	if i+1 < end && r.tokens[i+1].Class == words.Number && !r.measures(i+2, end) || i+2 < end && r.tokens[i+1].Class == words.Number && r.tokens[i+2].Class != words.Direction && r.tokens[i+2].Class != words.Unit {
		r.locate(axis, r.tokens[i+1].N+1)
		return i + 2
	}
	if i+2 < end && r.tokens[i+1].Class == words.Comma && r.tokens[i+1].Text == ":" && r.tokens[i+2].Class == words.Same && r.closes(i+3, end) { // row: same
		m := mention{ref: noReference}
		m.set(axis)
		r.state(m)
		return i + 3
	}
	if k := r.skip(i+1, end); k+1 < end && r.tokens[k].Class == words.Verb {
		switch t := &r.tokens[k+1]; {
		case t.Class == words.Number && (k+2 >= end || !r.measures(k+2, end)): // its row is 3
			r.locate(axis, t.N+1)
			return k + 2
		case t.Class == words.Magnitude: // its row number is larger than mine
			r.numbered = axis
			return k + 1
		}
	}
	if k := i + 1; k < end && r.tokens[k].Class == words.Filler && r.tokens[k].B == words.IndexWord && r.tokens[min(k+1, end)].Class == words.Magnitude {
		r.numbered = axis // with a row number larger than mine
		return k + 1
	}
	if k := i + 1; k < end && r.tokens[k].Class == words.Filler && r.tokens[k].B == words.IndexWord && r.tokens[min(k+1, end)].Class == words.Number {
		r.locate(axis, r.tokens[k+1].N+1)
		return k + 2
	}
	m := mention{ref: thePlayer}
	m.set(axis)
	if r.thisLine(i) {
		r.state(m)
		return i + 1
	}
	if next := r.afterMine(i+1, end); next > i+1 {
		if next < end && r.tokens[next].Class == words.Comma && r.tokens[next].Text == ":" {
			return next // "row of the player: 3"
		}
		r.state(m)
		return next
	}
	k := i + 1
	if k < end && r.tokens[k].Class == words.Filler && r.tokens[k].B == words.IndexWord {
		k++ // its column index is …
	}
	if k+1 < end && r.tokens[k].Class == words.Verb {
		if r.tokens[k].B == words.EqualsWord {
			if ref, next := r.reference(k+1, end, true); ref != noReference {
				m.ref = ref
				r.state(m)
				return next
			}
		}
		k = r.skip(k+1, end)
		if k < end && (r.tokens[k].Class == words.Same || r.tokens[k].Class == words.Linking) {
			if ref, next := r.reference(k+1, end, r.tokens[k].Class == words.Linking); ref != noReference {
				m.ref = ref
				r.state(m)
				return next
			}
		}
		if k < end && (r.tokens[k].Class == words.Possessive || r.tokens[k].Class == words.Player && r.closes(k+1, end)) {
			r.state(m)
			return k + 1
		}
	}
	return i + 1
}
