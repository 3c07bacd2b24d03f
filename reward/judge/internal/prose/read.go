package prose

import "vagen/reward/judge/internal/words"

// read reads the token at i, with what belongs to it, and returns the next index.
func (r *reader) read(i, end int) int {
	t := &r.tokens[i]
	if r.tokens[i].Class != words.Direction && t.Class != words.Filler && t.Class != words.Toward && t.Class != words.Placing && t.Class != words.Linking && t.Class != words.Precise && t.Class != words.Number && t.Class != words.Unit {
		r.possess = r.possess && t.Class == words.And
	}
	switch t.Class {
	case words.Stop, words.Question:
	case words.Foreign, words.Part:
		if r.stranger(i, end) {
			r.begin([]int{r.entity("", 0, 1)}, false)
			return i + 1
		}
		if len(r.subject) == 0 && len(r.mentions) > 0 && r.closes(i+1, end) && r.afterVerb(i) {
			r.begin([]int{r.entity("", 0, 1)}, false) // to the east there is ice
			return i + 1
		}
		if t.Text == "correct" && r.tokens[i+1].Class == words.Player && r.tokens[i+1].A == words.Reflexive {
			return r.amend(i + 2) // let me correct myself
		}
		return r.like(i, end)
	case words.Comma:
		return r.comma(i, end)
	case words.And, words.But:
		return r.joined(i, end)
	case words.Or:
		if n := &r.tokens[i+1]; n.Class == words.Without && n.A == words.RatherWord {
			return r.amend(i + 2) // or rather
		}
		if i+2 < end && r.tokens[i+1].Class == words.Filler && r.tokens[i+2].Class == words.Precise {
			return i + 3 // or more precisely
		}
		if r.tokens[i+1].Class == words.Several { // above me, left of me, or both
			for k := range r.mentions {
				r.mentions[k].offered = true
			}
		}
		if n, p := &r.tokens[i+1], &r.tokens[max(i-1, 0)]; t.Text == "/" && n.Class == words.Direction && p.Class == words.Direction && (n.A&0xf == 0) != (p.A&0xf == 0) && (n.B == 0) != (p.B == 0) {
			r.part++ // below/right
			return i + 1
		}
		r.offer = true
	case words.Correcting:
		if n := &r.tokens[i+1]; t.A == words.DropWord && (n.Class == words.Pronoun || n.Class == words.Filler && n.B == words.ThatWord) {
			return r.amend(i + 2) // scratch that
		}
		if t.A == 0 || t.A == words.MeanWord && i > 0 && r.tokens[i-1].Class == words.Player {
			return r.amend(i + 1)
		}
	case words.Not:
		if t.A == words.ExceptWord {
			c := r.tokens[i+1].Class
			r.negated = r.negated || c == words.Direction || c == words.Toward || c == words.Placing
			break
		}
		if t.A == words.AnyWord {
			if r.tokens[i+1].Class == words.But { // anything but above me
				r.negated = true
				return i + 2
			}
			break
		}
		if i+1 < end && r.tokens[i+1].Text == "" && r.tokens[i+1].Class == words.Filler && r.only(i+1) {
			r.notOnly = true
			return i + 2
		}
		if ids, next := r.phrase(i+1, end); ids != nil { // "there is not a hole …"
			if i > 0 && r.tokens[i-1].Class == words.Comma && len(r.subject) > 0 && r.subject[0] >= 0 && len(r.mentions) == 0 && next < end && r.tokens[next].Class == words.Comma {
				return next + 1 // the goal, not the hole, is …
			}
			r.begin(ids, false)
			r.silent = true
			return next
		}
		r.negated = true
	case words.Without: // "rather than below me", and "rather" alone
		if j := r.skip(i+1, end); r.tokens[j].Class == words.Ignorance || r.tokens[j].Class == words.Doubt {
			return j + 1 // without any doubt
		}
		if next := r.tokens[i+1].Class; t.Text == "" && (next == words.Linking || next == words.Filler || next == words.Direction || next == words.Toward || next == words.Placing) {
			r.negated = true
			return i + 2
		}
		r.negated = false
	case words.Alike:
		if t.A != words.SoWord || i+1 < end && (r.tokens[i+1].Class == words.Verb || r.tokens[i+1].Text == "will" || r.tokens[i+1].Text == "does") {
			return r.alike(i, end)
		}
	case words.Either:
		r.doubtful = r.doubtful || !r.negated && len(r.subject) > 0 && len(r.mentions) == 0
	case words.Void:
		r.begin([]int{r.entity("", 0, 1)}, r.afterVerb(i))
	case words.Neither, words.Nor:
		return r.neither(i, end)
	case words.No:
		return r.none(i, end)
	case words.Doubt:
		if t.A == words.ThoughtWord && i > 0 && r.tokens[i-1].Class == words.Ordinal && r.tokens[i-1].N > 1 {
			return r.amend(i + 1) // on second thought
		}
		r.doubts(i, end)
	case words.Verb:
		if t.Text == "be" && i > 0 && r.tokens[i-1].Class == words.Toward && r.wished(i) {
			r.doubtful = true
		}
		r.elsewhere(i)
		r.placed, r.verbAt = true, i
		if t.B == words.EndWord && i+1 < end && r.tokens[i+1].Class == words.Direction {
			return i + 2 // ends up
		}
	case words.Acting:
		return r.action(i, end)
	case words.Precise:
		r.precise = r.leadsToDirection(i+1, end) || r.besideMe(i+1, end) || t.A != words.ExactWord && r.tokens[i+1].Class == words.Number && r.leadsToPlace(i+1, end)
	case words.Direction:
		return r.direction(i, end)
	case words.Same:
		return r.equal(i, end)
	case words.Level, words.Along:
		return r.level(i, end)
	case words.Share:
		return r.shares(i, end)
	case words.Line:
		return r.line(i, end)
	case words.Player, words.Possessive:
		return r.playerWord(i, end)
	case words.Relating:
		return r.relate(i, end)
	case words.Beside:
		if next := r.nearer(i, end); next > 0 {
			return next
		}
		if _, after := r.phrase(r.skip(i+1, end), end); t.A == words.BetweenWord && after < end && r.leadsToDirection(after, end) {
			return i + 1 // between the box above and the target below
		}
		return r.skipReference(i+1, end)
	case words.Linking:
		switch {
		case t.A == words.Origin:
			return r.from(i, end)
		case t.A == words.AsWord && r.tokens[i+1].B == words.WellWord && r.tokens[i+1].Class == words.Filler && r.tokens[min(i+2, end)].Class == words.Linking:
			return i + 3 // as well as
		case t.A == words.AsWord && r.tokens[i+1].B == words.WellWord && r.tokens[i+1].Class == words.Filler:
			r.likewise = true
		case t.A == words.AsWord && r.tokens[i+1].Class == words.Verb:
			return r.alike(i, end) // as is the box
		case t.A == words.AsWord && r.tokens[i+1].Class == words.Filler && r.tokens[i+1].B == words.HereWord:
			r.negated = false // I cannot go down, as there is …
		case t.A == words.AsWord:
			return r.asFar(i, end)
		}
	case words.Toward, words.Placing:
		return r.toward(i, end)
	case words.Magnitude:
		return r.magnitude(i, end)
	case words.Filler:
		switch {
		case t.B == words.FarWord && r.tokens[i+1].Class == words.Linking && r.tokens[i+1].A == words.Origin && r.tokens[min(i+2, end)].B == words.BeingWord && r.tokens[min(i+2, end)].Class == words.Filler:
			r.negated = true // far from being above me
			return i + 3
		case t.B == words.HereWord && r.exists(i, end):
			r.tokens[i+1].Lexeme = words.Lexeme{Class: words.Verb}
		case t.B == words.TooWord && r.bare(i, end):
			r.likewise = true
			return i + 1
		case t.B == words.AfterWord && r.tokens[i+1].Class == words.Filler && r.tokens[i+1].B == words.HereWord:
			r.negated = false // I cannot go down, since there is …
		case t.B == words.WouldWord && r.tokens[i+1].Class == words.Verb:
			r.doubts(i, end)
			return i + 1
		case t.B == words.GoingWord && r.leadsToDirection(i+1, end):
			return r.action(i, end)
		}
		return r.noun(i, end)
	case words.Several:
		if i > 0 && r.tokens[i-1].Class == words.Object && !r.tokens[i-1].Many && len(r.subject) == 1 && r.subject[0] >= 0 {
			r.entities[r.subject[0]].bare = true // one hole each on my left and on my right
			return i + 1
		}
		return r.noun(i, end)
	case words.Object, words.Ordinal, words.Number, words.Other, words.Alternative, words.Pronoun:
		return r.noun(i, end)
	}
	return i + 1
}

// only reports whether the filler at i is the word of "not only".
func (r *reader) only(i int) bool { return r.tokens[i].B == words.OnlyWord }

// comma separates parts of a sentence. A pair of numbers in brackets is a position.
func (r *reader) comma(i, end int) int {
	if (r.tokens[i].Text == "(" || r.tokens[i].Text == "[") && i+4 < end && r.tokens[i+1].Class == words.Number && r.tokens[i+2].Class == words.Comma && r.tokens[i+3].Class == words.Number {
		r.locate(words.RowAxis, r.tokens[i+1].N+1)
		r.locate(words.ColumnAxis, r.tokens[i+3].N+1)
		return i + 5
	}
	if r.relative(i, end) {
		return i + 2
	}
	if r.tokens[i].Text == ":" && r.listing == "" && len(r.subject) == 1 && r.subject[0] >= 0 && len(r.mentions) == 0 && r.entities[r.subject[0]].many {
		r.listing = r.entities[r.subject[0]].kind
	} else if r.listing != "" && len(r.mentions) > 0 {
		r.item()
	}
	r.part++
	r.negated = r.negated && r.tokens[i].Text == "," && r.otherDirection(i+1, end)
	if r.denied && r.tokens[i].Text == ":" && len(r.mentions) == 0 && r.firstObject(i, end) != "" { // that is wrong: the box is …
		r.flush()
		r.retract()
		r.denied, r.corrects, r.subject = false, true, r.subject[:0]
	}
	if r.denied && r.tokens[i+1].Class == words.Pronoun { // "it is false that it is above me, it is below me"
		r.flush()
		r.denied, r.corrects = false, true
	}
	return i + 1
}

// joined reads "and" or "but".
func (r *reader) joined(i, end int) int {
	r.part++
	if i > 0 && r.tokens[i-1].Class == words.Comma {
		r.joint = r.part
	}
	switch {
	case r.tokens[i].Class == words.But:
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
		switch r.tokens[r.skip(i+1, end)].Class {
		case words.Direction, words.Toward, words.Placing, words.Same, words.Precise:
		default:
			r.negated = r.negated && r.otherDirection(i+1, end)
		}
	}
	return i + 1
}

// otherDirection reports whether the words at i add a direction of the other axis to the last
// one, so that what negates that negates it, too: "not in my row, to the left".
func (r *reader) otherDirection(i, end int) bool {
	n := len(r.mentions)
	if n == 0 || !r.leadsToPlace(i, end) {
		return false
	}
	for i < end && r.tokens[i].Class != words.Direction {
		if c := r.tokens[i].Class; c == words.Level || c == words.Line && r.tokens[i-1].Class != words.Number {
			return false
		}
		i++
	}
	t, m := &r.tokens[i], &r.mentions[n-1]
	return i < end && m.negated && (m.v == 0 || t.A&0xf == 0) && (m.h == 0 || t.B == 0)
}

// none reads "no": before a noun nothing is there, before rows the row is the same.
func (r *reader) none(i, end int) int {
	j := r.skip(i+1, end)
	if r.tokens[j].Class == words.Correcting {
		return i + 1 // no wait
	}
	if i > 0 && r.tokens[i-1].Text == ":" && r.closes(i+1, end) && len(r.mentions) > 0 {
		r.begin([]int{r.entity("", 0, 1)}, true) // up: none
		return i + 1
	}
	if r.tokens[j].Class == words.Comma {
		r.corrects = r.corrects || !r.asked && r.before(i) == words.Stop && i+2 < end && (r.tokens[i+2].Class == words.Pronoun || r.leadsToDirection(j+1, end)) // "no, it is …"
		return i + 1                                                                                                                                            // an answer
	}
	if r.tokens[j].Class == words.Line || r.tokens[j].Class == words.Unit {
		return r.distance(j, end)
	}
	if r.tokens[i+1].Class == words.Linking {
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
	for i < end && r.tokens[i].Class == words.Filler {
		i++
	}
	return i
}

// besideMe reports whether "next to me" and a direction follow, as in "directly next to me on
// the right".
func (r *reader) besideMe(i, end int) bool {
	if i >= end || r.tokens[i].Class != words.Beside {
		return false
	}
	for i++; i < end && (r.tokens[i].Class == words.Toward || r.tokens[i].Class == words.Linking); i++ {
	}
	if i >= end || r.tokens[i].Class != words.Player {
		return false
	}
	if i++; i < end && r.tokens[i].Class == words.Comma {
		i++
	}
	return r.leadsToDirection(i, end)
}

// leadsToPlace reports whether a direction, a row or "level" is next, perhaps after a distance.
func (r *reader) leadsToPlace(i, end int) bool {
	for ; i < end; i++ {
		switch r.tokens[i].Class {
		case words.Filler, words.Toward, words.Placing, words.Possessive, words.Cell, words.Precise, words.Number, words.Unit, words.Same:
		case words.Line:
			if i == 0 || r.tokens[i-1].Class != words.Number {
				return true
			}
		default:
			return r.tokens[i].Class == words.Direction || r.tokens[i].Class == words.Level
		}
	}
	return false
}

// leadsToDirection reports whether a direction is next, as in "directly to the left".
func (r *reader) leadsToDirection(i, end int) bool {
	for ; i < end; i++ {
		switch r.tokens[i].Class {
		case words.Filler, words.Toward, words.Placing, words.Possessive, words.Cell:
		case words.Level:
			if r.tokens[i-1].Class != words.Precise {
				return false
			}
		default:
			return r.tokens[i].Class == words.Direction
		}
	}
	return false
}
