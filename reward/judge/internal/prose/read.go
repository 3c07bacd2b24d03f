package prose

// read reads the token at i, with what belongs to it, and returns the next index.
func (r *reader) read(i, end int) int {
	t := &r.tokens[i]
	if r.tokens[i].class != direction && t.class != filler && t.class != toward && t.class != placing && t.class != linking && t.class != precise && t.class != number && t.class != unit {
		r.possess = r.possess && t.class == and
	}
	switch t.class {
	case stop, question:
	case foreign:
		return r.like(i, end)
	case comma:
		return r.comma(i, end)
	case and, but:
		return r.joined(i, end)
	case or:
		if n := &r.tokens[i+1]; n.class == without && n.a == ratherWord {
			return r.amend(i + 2) // or rather
		}
		if i+2 < end && r.tokens[i+1].class == filler && r.tokens[i+2].class == precise {
			return i + 3 // or more precisely
		}
		if r.tokens[i+1].class == several { // above me, left of me, or both
			for k := range r.mentions {
				r.mentions[k].offered = true
			}
		}
		r.offer = true
	case correcting:
		if t.a == 0 || t.a == meanWord && i > 0 && r.tokens[i-1].class == player {
			return r.amend(i + 1)
		}
	case not:
		if t.a == exceptWord {
			c := r.tokens[i+1].class
			r.negated = r.negated || c == direction || c == toward || c == placing
			break
		}
		if t.a == anyWord {
			if r.tokens[i+1].class == but { // anything but above me
				r.negated = true
				return i + 2
			}
			break
		}
		if i+1 < end && r.tokens[i+1].text == "" && r.tokens[i+1].class == filler && r.only(i+1) {
			r.notOnly = true
			return i + 2
		}
		if ids, next := r.phrase(i+1, end); ids != nil { // "there is not a hole …"
			if i > 0 && r.tokens[i-1].class == comma && len(r.subject) > 0 && r.subject[0] >= 0 && len(r.mentions) == 0 && next < end && r.tokens[next].class == comma {
				return next + 1 // the goal, not the hole, is …
			}
			r.begin(ids, false)
			r.silent = true
			return next
		}
		r.negated = true
	case without: // "rather than below me", and "rather" alone
		if j := r.skip(i+1, end); r.tokens[j].class == ignorance || r.tokens[j].class == doubt {
			return j + 1 // without any doubt
		}
		if next := r.tokens[i+1].class; t.text == "" && (next == linking || next == filler || next == direction || next == toward || next == placing) {
			r.negated = true
			return i + 2
		}
		r.negated = false
	case alike:
		if t.a != soWord || i+1 < end && r.tokens[i+1].class == verb {
			return r.alike(i, end)
		}
	case either:
		r.doubtful = r.doubtful || !r.negated && len(r.subject) > 0 && len(r.mentions) == 0
	case void:
		r.begin([]int{r.entity("", 0, 1)}, r.afterVerb(i))
	case neither, nor:
		return r.neither(i, end)
	case no:
		return r.none(i, end)
	case doubt:
		if t.a == thoughtWord && i > 0 && r.tokens[i-1].class == ordinal {
			return r.amend(i + 1) // on second thought
		}
		r.doubts(i, end)
	case verb:
		r.elsewhere(i)
		r.placed = true
		if t.b == endWord && i+1 < end && r.tokens[i+1].class == direction {
			return i + 2 // ends up
		}
	case acting:
		return r.action(i, end)
	case precise:
		r.precise = r.leadsToDirection(i+1, end)
	case direction:
		return r.direction(i, end)
	case same:
		return r.equal(i, end)
	case level, along:
		return r.level(i, end)
	case share:
		return r.shares(i, end)
	case line:
		return r.line(i, end)
	case player, possessive:
		return r.playerWord(i, end)
	case relating:
		return r.relate(i, end)
	case beside:
		if next := r.nearer(i, end); next > 0 {
			return next
		}
		return r.skipReference(i+1, end)
	case linking:
		switch {
		case t.a == origin:
			return r.from(i, end)
		case t.a == asWord && r.tokens[i+1].b == wellWord && r.tokens[i+1].class == filler && r.tokens[min(i+2, end)].class == linking:
			return i + 3 // as well as
		case t.a == asWord && r.tokens[i+1].b == wellWord && r.tokens[i+1].class == filler:
			r.likewise = true
		case t.a == asWord && r.tokens[i+1].class == verb:
			return r.alike(i, end) // as is the box
		case t.a == asWord:
			return r.asFar(i, end)
		}
	case toward, placing:
		return r.toward(i, end)
	case magnitude:
		return r.magnitude(i, end)
	case filler:
		switch {
		case t.b == farWord && r.tokens[i+1].class == linking && r.tokens[i+1].a == origin && r.tokens[min(i+2, end)].b == beingWord && r.tokens[min(i+2, end)].class == filler:
			r.negated = true // far from being above me
			return i + 3
		case t.b == tooWord && r.bare(i, end):
			r.likewise = true
			return i + 1
		case t.b == wouldWord && r.tokens[i+1].class == verb:
			r.doubts(i, end)
			return i + 1
		case t.b == goingWord && r.leadsToDirection(i+1, end):
			return r.action(i, end)
		}
		return r.noun(i, end)
	case object, ordinal, number, other, several, alternative, pronoun:
		return r.noun(i, end)
	}
	return i + 1
}

// only reports whether the filler at i is the word of "not only".
func (r *reader) only(i int) bool { return r.tokens[i].b == onlyWord }

// comma separates parts of a sentence. A pair of numbers in brackets is a position.
func (r *reader) comma(i, end int) int {
	if (r.tokens[i].text == "(" || r.tokens[i].text == "[") && i+4 < end && r.tokens[i+1].class == number && r.tokens[i+2].class == comma && r.tokens[i+3].class == number {
		r.locate(rowAxis, r.tokens[i+1].n+1)
		r.locate(columnAxis, r.tokens[i+3].n+1)
		return i + 5
	}
	if r.relative(i, end) {
		return i + 2
	}
	if r.tokens[i].text == ":" && r.listing == "" && len(r.subject) == 1 && r.subject[0] >= 0 && len(r.mentions) == 0 && r.tokens[i-1].class == object && r.tokens[i-1].many {
		r.listing = r.tokens[i-1].kind
	} else if r.listing != "" && len(r.mentions) > 0 {
		r.item()
	}
	r.part++
	r.negated = false
	if r.denied && r.tokens[i+1].class == pronoun { // "it is false that it is above me, it is below me"
		r.flush()
		r.denied, r.corrects = false, true
	}
	return i + 1
}

// joined reads "and" or "but".
func (r *reader) joined(i, end int) int {
	r.part++
	switch {
	case r.tokens[i].class == but:
		r.negated = false
		if r.denied {
			r.flush()
			r.denied = false
		}
		if r.silent { // "there is no hole above me, but there is one to my left"
			r.flush()
			r.subject = r.subject[:0]
		}
	case i+1 < end:
		switch r.tokens[r.skip(i+1, end)].class {
		case direction, toward, placing, same, precise:
		default:
			r.negated = false
		}
	}
	return i + 1
}

// none reads "no": before a noun nothing is there, before rows the row is the same.
func (r *reader) none(i, end int) int {
	j := r.skip(i+1, end)
	if r.tokens[j].class == correcting {
		return i + 1 // no wait
	}
	if r.tokens[j].class == comma {
		r.corrects = r.corrects || !r.asked && r.before(i) == stop && i+2 < end && r.tokens[i+2].class == pronoun // "no, it is …"
		return i + 1                                                                                              // an answer
	}
	if r.tokens[j].class == line || r.tokens[j].class == unit {
		return r.distance(j, end)
	}
	if r.tokens[i+1].class == linking {
		i++
	}
	if ids, next := r.phrase(i+1, end); ids != nil {
		r.begin(ids, false)
		r.silent = true
		r.plural, r.single = r.entities[ids[0]].kind, true // "no hole …, but there is one …"
		return next
	}
	r.negated = true
	return i + 1
}

// skip returns the index of the first token from i that is not a filler.
func (r *reader) skip(i, end int) int {
	for i < end && r.tokens[i].class == filler {
		i++
	}
	return i
}

// leadsToDirection reports whether a direction is next, as in "directly to the left".
func (r *reader) leadsToDirection(i, end int) bool {
	for ; i < end; i++ {
		switch r.tokens[i].class {
		case filler, toward, placing, possessive, cell:
		case level:
			if r.tokens[i-1].class != precise {
				return false
			}
		default:
			return r.tokens[i].class == direction
		}
	}
	return false
}
