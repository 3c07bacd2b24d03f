package prose

import "vagen/reward/judge/internal/words"

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
	case len(r.mentions) > 0 && (inverted && r.inverts() || r.fronted && ids[0] != thePlayer && len(r.mentions) > r.ahead && r.mentions[len(r.mentions)-1].part == r.part && r.mentions[r.ahead-1].part < r.part):
		cut := r.inversion()
		moved := append([]mention(nil), r.mentions[cut:]...)
		r.mentions = r.mentions[:cut]
		r.flush()
		r.mentions, r.fronted, r.ahead = append(r.mentions, moved...), true, len(moved)
	default:
		if r.amended > 0 && r.amended == len(r.mentions) { // it is above me, no wait, it is …
			r.corrects = r.corrected
			defer func() { r.corrects = true }()
		}
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

// inverts reports whether directions before a verb belong to the subject after it: not those of
// "there is a box above me, and there is …", without which the subject before has none.
func (r *reader) inverts() bool {
	if last := r.mentions[len(r.mentions)-1].part; !r.fronted && r.joint > 0 && r.joint == r.part && last < r.joint {
		return false
	}
	return r.fronted || r.subject[0] == thePlayer || r.mentions[0].part != r.mentions[len(r.mentions)-1].part || r.mentions[0].part == r.part || r.verbAt > 0 && r.tokens[r.verbAt-1].Class == words.Comma
}

// inversion returns the first of the mentions that belong to a subject after the verb.
func (r *reader) inversion() int {
	if r.fronted {
		return min(r.ahead, len(r.mentions))
	}
	if r.joint > 0 {
		for k := range r.mentions {
			if k > 0 && r.mentions[k].part >= r.joint {
				return k
			}
		}
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
		if n := len(r.entities); t.Class == words.Several && t.A == words.OfTwo && n > 1 && (r.tokens[r.skip(i+1, end)].Class == words.Verb || r.tokens[i+1].Class == words.Placing && r.before(i) == words.Comma) {
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
		if r.parent >= 0 && len(ids) == 1 && ids[0] != r.parent && !(t.Class == words.Number && len(r.mentions) > 0 && r.before(i) == words.And && r.tokens[i+1].Class == words.Verb) && r.entities[ids[0]].kind == r.entities[r.parent].kind {
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
				r.owner = ids[0] // to the box's left
				return next + 1
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
		if r.apposition(i, next, end) {
			r.subject = r.subject[:0] // the former object, the box, is …
		}
		r.subject = append(r.subject, ids...)
		r.recent = append(r.recent[:0], r.subject...)
		r.listed = append(r.listed[:0], r.subject...)
		return next
	}
	r.begin(ids, r.afterVerb(i))
	return next
}

// apposition reports whether the phrase from i to next stands between commas and before a verb,
// and so names the subject again.
func (r *reader) apposition(i, next, end int) bool {
	for i > 0 && r.tokens[i-1].Class == words.Filler {
		i--
	}
	return i > 0 && r.tokens[i-1].Class == words.Comma && len(r.subject) == 1 && next+1 < end && r.tokens[next].Class == words.Comma && r.tokens[next+1].Class == words.Verb
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
