package prose

// assertsNothing finds the words by which a whole sentence asserts nothing: it is for
// the judge, a condition, or says that something is not known or not true.
func (r *reader) assertsNothing(i, end int) bool {
	for k := i; k < end; k++ {
		switch r.tokens[k].class {
		case address:
			return true
		case ignorance:
			before := k - 1
			for before > i && r.tokens[before].class == filler {
				before--
			}
			if k > i && (r.tokens[before].class == no || r.tokens[before].class == without) {
				continue // without any doubt
			}
			if r.tokens[k].a == claimWord || r.unknown(k, i, end) {
				return true
			}
		case filler:
			if k == i && (r.tokens[k].b == shouldWord || r.tokens[k].b == whenWord) {
				return true
			}
			r.respective = r.respective || r.tokens[k].b == respectWord
		case denial:
			r.denied = true
		case foreign:
			if n := &r.tokens[k+1]; k == i && n.class == filler && (r.tokens[k].text == "let" || r.tokens[k].text == "given" && n.a == indefinite) {
				return true // let the goal be above me, given a goal above me
			}
		case void:
			for _, t := range r.tokens[k+1 : min(k+4, end)] {
				if t.class == sureness || t.class == seeing || t.class == filler && t.b == thatWord {
					return true // nobody would say, nothing suggests that
				}
			}
		case sureness:
			if k > i && r.tokens[k].a == truth && r.tokens[k-1].class == placing { // in case
				return true
			}
			if r.tokens[k].a == sayWord && (k == i || k > i+1 && r.tokens[k-1].class == possessive && r.tokens[k-2].text == "let") {
				return true // say the goal is …, let's say
			}
			if k > i && r.tokens[k].a == sayWord && r.othersSay(k, i) {
				return true // they say
			}
			if n := &r.tokens[k+1]; r.tokens[k].a == possibleWord && (n.class == cell || n.class == filler && n.b == thatWord) {
				return true // possible that, possible positions
			}
		case hard:
			if n := &r.tokens[k+1]; n.class == filler && n.b == thatWord {
				return true // impossible that
			}
			for _, t := range r.tokens[k+1 : min(k+4, end)] {
				if t.class == sureness || t.class == seeing || t.class == address {
					if r.concedes(k, i, end) {
						break
					}
					return true
				}
			}
		case not, no:
			for n, t := range r.tokens[k+1 : min(k+4, end)] {
				if t.class == comma || t.class == direction || t.class == but || t.class == object {
					break
				}
				if t.class == sureness && t.a == truth {
					r.denied = true
					break
				}
				if (t.class == sureness || t.class == seeing) && n < 3 {
					if r.unknown(k+1+n, i, end) {
						return true
					}
					break
				}
			}
		}
	}
	return false
}

// othersSay reports whether "say" at k has a subject other than the player.
func (r *reader) othersSay(k, i int) bool {
	if c := r.tokens[k-1].class; c == pronoun || c == other {
		return true
	}
	for _, t := range r.tokens[i:k] {
		if t.class == player {
			return false
		}
	}
	return r.tokens[k-1].class == foreign
}

// concedes hushes a part that starts the sentence with "although" or the like, up to its comma. It reports
// whether there is such a part with k in it.
func (r *reader) concedes(k, i, end int) bool {
	first, second := &r.tokens[i], &r.tokens[i+1]
	switch {
	case first.class == but && first.a == althoughWord:
	case first.class == filler && first.b == evenWord && second.class == ignorance: // even if
	case first.class == ignorance && second.class == or && r.tokens[min(i+2, end)].class == not: // whether or not
	default:
		return false
	}
	for j := k; j < end; j++ {
		if r.tokens[j].class == comma {
			r.hush(i, j)
			return true
		}
	}
	return false
}

// doubts marks the clause, or the next one where the doubt stands before its subject.
func (r *reader) doubts(i, end int) {
	if r.tokens[i].a == couldWord && r.tokens[min(i+1, end)].class == seeing {
		return // "I could see that …" states it
	}
	if i > 0 && r.tokens[i-1].class == number && r.tokens[min(i+1, end)].class == seeing {
		return // contrary to what one may think
	}
	if len(r.subject) == 0 {
		r.nextDoubtful = true
		return
	}
	if before := r.tokens[max(i-1, 0)].class; before == comma || before == and || before == but {
		r.doubtAt, r.wasDoubtful = len(r.mentions), r.doubtful
	}
	r.doubtful = true
}

// alike reads "likewise" and "so is the hole": the next subject, or else this one, is where
// the last object is.
func (r *reader) alike(i, end int) int {
	k := i + 1
	if k < end && r.tokens[k].class == verb {
		k++
	}
	if ids, next := r.phrase(k, end); ids != nil {
		r.begin(ids, false)
		r.likewise = true
		return next
	}
	r.likewise = true
	return i + 1
}
