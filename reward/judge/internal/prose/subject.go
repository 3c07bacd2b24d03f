package prose

// playerWord reads the player as a subject, and "my row", "my left", "my position".
func (r *reader) playerWord(i, end int) int {
	k := i
	if r.tokens[k].class == player {
		k++
		if k >= end || r.tokens[k].class != possessive {
			return r.playerSubject(i, k, end)
		}
	}
	for k++; k < end && r.tokens[k].class == filler; k++ {
	}
	if k >= end {
		return k
	}
	switch t := &r.tokens[k]; t.class {
	case line:
		if k+1 < end && (r.tokens[k+1].class == number || (r.tokens[k+1].class == verb || r.tokens[k+1].class == comma && r.tokens[k+1].text == ":") && r.tokens[k+2].class == number) {
			r.player()
			return k
		}
		if k+1 < end && r.tokens[k+1].class == verb && !(i > 0 && r.tokens[i-1].class == placing) {
			return k + 1
		}
		m := mention{ref: thePlayer}
		m.set(t.a)
		k++
		if k+1 < end && r.tokens[k].class == and && r.tokens[k+1].class == line {
			m.set(r.tokens[k+1].a)
			k += 2
		}
		r.state(m)
		return k
	case level:
		if t.a != aligned {
			r.state(mention{v: equal, ref: thePlayer})
		}
		return k + 1
	case cell:
		if k+1 < end && r.tokens[r.skip(k+1, end)].class == verb {
			r.player()
			return k + 1
		}
		if i > 0 && r.tokens[i-1].class == placing && len(r.subject) > 0 && r.subject[0] != thePlayer {
			r.state(mention{v: equal, h: equal, ref: thePlayer})
		}
		return k + 1
	case direction, precise, along:
		r.possess = true
		return k
	case object: // my goal is to …
		if k+3 < end && r.tokens[k+1].class == verb && r.tokens[k+2].class == toward && !r.leadsToDirection(k+3, end) {
			return k + 1
		}
		return k
	case same:
		return k
	}
	return i + 1
}

// player makes the player the subject.
func (r *reader) player() { r.begin([]int{thePlayer}, false) }

// playerSubject reads the player at i, with the word after it at k.
func (r *reader) playerSubject(i, k, end int) int {
	if r.tokens[i].a == reflexive || r.before(i) == seeing && len(r.subject) > 0 && r.subject[0] != thePlayer {
		r.player()
		return i + 1
	}
	if i > 0 && r.joins(i) && len(r.subject) > 0 && r.subject[0] != thePlayer && len(r.mentions) == 0 && !r.placed {
		r.together = true
		return i + 1
	}
	if k+1 < end && r.tokens[k].class == and {
		if ids, next := r.phrase(k+1, end); ids != nil && next < end && r.tokens[next].class == verb {
			r.begin(ids, false)
			r.together = true
			return next
		}
	}
	for k < end && (r.tokens[k].class == filler || r.tokens[k].class == doubt) {
		k++
	}
	r.observer = r.observer || k < end && r.tokens[k].class == seeing
	if k+1 < end && r.tokens[k].class == cell && r.tokens[k+1].class == comma && r.tokens[k+1].text != "," {
		r.player() // player position: (3, 4)
		return k + 1
	}
	if k+1 < end && r.tokens[k].class == line && r.tokens[k+1].class == number {
		r.player() // the player, row 3
		return i + 1
	}
	if k < end && (r.tokens[k].class == verb || r.tokens[k].class == comma && r.tokens[k].text != "," || r.tokens[k].class == placing && k == i+1) {
		r.player()
		return i + 1
	}
	if r.afterVerb(i) && len(r.mentions) > 0 && len(r.subject) == 0 {
		r.player() // "below the target am I"
		return i + 1
	}
	return i + 1
}

// relate reads "relative to me".
func (r *reader) relate(i, end int) int {
	if i+1 < end && r.tokens[i+1].class == cell {
		return i + 2 // relative position
	}
	if ref, next := r.reference(i, end, false); ref != noReference {
		r.base = ref
		return next
	}
	return i + 1
}

// skipReference skips an object that only says where something else is.
func (r *reader) skipReference(i, end int) int {
	for i < end && (r.tokens[i].class == toward || r.tokens[i].class == filler || r.tokens[i].class == linking) {
		i++
	}
	for i < end && r.tokens[i].class == direction {
		i++ // near the top
	}
	for i < end {
		next := i
		if r.tokens[i].class == player {
			next = r.afterPlayer(i+1, end)
		} else if ids, after := r.phrase(i, end); ids != nil {
			next = after
			if len(r.subject) == 0 {
				r.recent = append(r.recent[:0], ids...)
			}
		}
		if next == i {
			return i
		}
		i = next
		if i+1 < end && r.tokens[i].class == and && r.tokens[r.skip(i+1, end)].class == player {
			i++
			continue
		}
		return i
	}
	return i
}

// from reads "from me to the goal" and "seen from the box".
func (r *reader) from(i, end int) int {
	if i+1 < end && r.tokens[i+1].b == hereWord && r.tokens[i+1].class == filler {
		return i + 2
	}
	ref, next := r.reference(i, end, false)
	if ref == noReference || ref == otherwiseLocated {
		return i + 1
	}
	if next < end && r.tokens[next].class == toward {
		if r.tokens[min(next+1, end)].class == player || r.tokens[r.skip(next+1, end)].class == player {
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
	if next < end && r.tokens[next].class == possessive {
		next++
	}
	return next
}

// toward reads "to" and "on": with an object, that is where the subject is or goes.
func (r *reader) toward(i, end int) int {
	on := r.tokens[i].class == placing
	if len(r.subject) == 0 && on {
		return i + 1
	}
	ids, next := r.phrase(i+1, end)
	if ids == nil || r.tokens[next-1].class != object && r.tokens[next-1].class != cell && r.tokens[next-1].class != number {
		if on && r.tokens[r.skip(i+1, end)].class == player && len(r.subject) > 0 && r.subject[0] != thePlayer {
			k := r.skip(i+1, end)
			if k+1 >= end || r.tokens[k+1].class != possessive {
				return k + 1
			}
		}
		return i + 1
	}
	if next+1 < end && r.tokens[next].class == comma && r.tokens[next+1].class == filler && r.tokens[next+1].b == whichWord {
		return i + 1 // "… and at the box, which is below me"
	}
	if on && len(r.subject) > 0 && r.subject[0] == thePlayer {
		r.state(mention{v: equal, h: equal, ref: ids[0]})
	} else if len(r.subject) == 0 {
		r.recent = append(r.recent[:0], ids...)
	}
	return next
}

// before returns the class of the last token before i that is not a filler.
func (r *reader) before(i int) class {
	for i--; i >= 0; i-- {
		if r.tokens[i].class != filler {
			return r.tokens[i].class
		}
	}
	return stop
}
