package prose

import "vagen/reward/judge/internal/words"

// amend reads "no wait" and the like: what follows replaces what was said.
func (r *reader) amend(next int) int {
	r.corrected = r.corrects
	r.corrects, r.offer, r.negated = true, false, false
	r.amended = len(r.mentions)
	return next
}

// replace drops the directions of the clause that later ones replace.
func (r *reader) replace() {
	if r.amended == 0 {
		return
	}
	var v, h bool
	for _, m := range r.mentions[r.amended:] {
		v, h = v || m.v != 0, h || m.h != 0
	}
	for k := range r.mentions[:r.amended] {
		m := &r.mentions[k]
		if v && m.v != 0 {
			m.v, m.exact = 0, false
		}
		if h && m.h != 0 {
			m.h, m.exact = 0, false
		}
	}
}

// neither reads "neither" and "nor": before a noun phrase the clause states nothing.
func (r *reader) neither(i, end int) int {
	k := i + 1
	if k < end && r.tokens[k].Class == words.Verb {
		k++ // nor is the hole
	}
	if r.tokens[i].Class == words.Nor && k < end && r.tokens[k].Class == words.Filler && r.tokens[k].B == words.HereWord { // nor is there one …
		ids, next := r.phrase(k+1, end)
		if ids == nil {
			ids, next = r.implied(r.skip(k, end), end)
		}
		if ids != nil {
			r.begin(ids, false)
			r.silent = true
			return next
		}
	}
	if r.tokens[i].Class == words.Nor && k > i+1 && r.tokens[k].Class == words.Pronoun && len(r.subject) > 0 && r.subject[0] >= 0 {
		r.negated = true
		return k + 1 // nor is it …
	}
	if r.tokens[k].Class != words.Pronoun {
		if ids, next := r.phrase(k, end); ids != nil && next < end && (r.tokens[i].Class == words.Nor || r.tokens[next].Class == words.Nor) {
			if len(r.subject) > 0 && r.subject[0] == thePlayer && len(r.mentions) > 0 {
				return next // I am above neither the goal nor the hole
			}
			r.begin(ids, false)
			r.silent = true
			return next
		}
	}
	r.negated = true
	return i + 1
}

// asFar reads "as far right as me" and "as high as me": the same column or row.
func (r *reader) asFar(i, end int) int {
	m := mention{ref: noReference}
	k := i + 1
	for ; k < end; k++ {
		t := &r.tokens[k]
		if t.Class == words.Filler && t.B == words.HighWord {
			m.v = words.Equal
			continue
		}
		if t.Class == words.Direction && i+1 < k {
			if t.A&0xf != 0 {
				m.v = words.Equal
			}
			if t.B != 0 {
				m.h = words.Equal
			}
			continue
		}
		if t.Class != words.Filler && t.Class != words.Toward {
			break
		}
	}
	if m.v|m.h == 0 || k >= end || r.tokens[k].Class != words.Linking || r.tokens[k].A != words.AsWord {
		return i + 1
	}
	ref, next := r.reference(k, end, false)
	if ref == noReference {
		return i + 1
	}
	m.ref = ref
	r.state(m)
	return next
}

// magnitude reads "a smaller row index than mine" and, after the line, "is larger than
// mine".
func (r *reader) magnitude(i, end int) int {
	m := mention{ref: noReference}
	k := r.skip(i+1, end)
	if k < end && r.tokens[k].Class == words.Line {
		m.order(r.tokens[k].A, r.tokens[i].A)
		k = r.skip(k+1, end)
	} else if r.numbered != 0 {
		m.order(r.numbered, r.tokens[i].A)
	} else {
		return i + 1
	}
	if ref, next := r.reference(k, end, false); ref != noReference {
		m.ref, k = ref, next
	}
	r.state(m)
	return k
}

// order sets the direction in which the numbers of an axis are smaller or larger.
func (m *mention) order(axis, direction uint8) {
	if axis == words.RowAxis {
		m.v = direction
	} else {
		m.h = direction
	}
}

// relative reads "which" after a comma and a noun phrase: the next directions are those of
// its objects.
func (r *reader) relative(i, end int) bool {
	if i == 0 || i+1 >= end || r.tokens[i].Text != "," || r.tokens[i+1].Class != words.Filler || r.tokens[i+1].B != words.WhichWord || len(r.nouns) == 0 {
		return false
	}
	if r.nounEnd != i {
		return false
	}
	if len(r.subject) == len(r.nouns) && r.subject[0] == r.nouns[0] {
		return false
	}
	r.begin(append([]int(nil), r.nouns...), false)
	r.base, r.fromTo = noReference, false
	r.part++
	return true
}

// like reads "just like the goal" after what is stated of another object.
func (r *reader) like(i, end int) int {
	if r.tokens[i].Text != "like" || len(r.mentions) == 0 || len(r.subject) == 0 || r.subject[0] < 0 {
		return i + 1
	}
	ids, next := r.phrase(i+1, end)
	if ids == nil || next < end && r.tokens[next].Class != words.Comma {
		return i + 1
	}
	r.begin(ids, false)
	r.likewise = true
	return next
}

// nearer reads "closer to the top than me", and returns the index after it, or 0.
func (r *reader) nearer(i, end int) int {
	k := i + 1
	for k < end && (r.tokens[k].Class == words.Toward || r.tokens[k].Class == words.Filler) {
		k++
	}
	if k >= end || r.tokens[k].Class != words.Direction {
		return 0
	}
	m := mention{v: r.tokens[k].A & 0xf, h: r.tokens[k].B}
	for k++; k < end && (r.tokens[k].Class == words.Part || r.tokens[k].Class == words.Filler); k++ {
	}
	if k >= end || r.tokens[k].Class != words.Linking || r.tokens[k].A == words.Origin {
		return 0
	}
	ref, next := r.reference(k, end, false)
	if ref == noReference {
		return 0
	}
	m.ref = ref
	r.state(m)
	return next
}

// answer keeps the directions of a question such as "what is above me?", and gives them to
// the only object of a sentence after it that states nothing else.
func (r *reader) answer(i, end int) {
	if r.tokens[end].Class == words.Question {
		r.open = r.open[:0]
		if t := &r.tokens[i]; t.Class == words.Filler && (t.B == words.WonderWord || t.B == words.WhichWord) && r.firstObject(i, end) == "" {
			for _, m := range r.mentions {
				if m.offered || m.negated || m.ref != thePlayer {
					r.open = r.open[:0]
					return
				}
				r.open = append(r.open, m)
			}
		}
		return
	}
	if len(r.open) == 0 {
		return
	}
	objects := 0
	for _, t := range r.tokens[i:end] {
		switch t.Class {
		case words.Object:
			objects++
		case words.Filler, words.Verb, words.Pronoun, words.Comma, words.Number:
		default:
			objects = 2
		}
	}
	if objects == 1 && len(r.subject) == 1 && r.subject[0] >= 0 && len(r.mentions) == 0 && !r.muted && !r.inside {
		r.mentions = append(r.mentions, r.open...)
	}
	r.open = r.open[:0]
}

// divide makes an object of each part of "holes to my left and below me", in which every
// part names the player, and of "two holes, left and right", which one object cannot be.
func (r *reader) divide() {
	if len(r.subject) != 1 || r.subject[0] < 0 || r.respective {
		return
	}
	e := &r.entities[r.subject[0]]
	if !e.bare && e.count < 2 {
		return
	}
	parts, last, named, all := 0, -1, true, true
	var sum entity
	for k := range r.mentions {
		m := &r.mentions[k]
		if m.negated || m.offered {
			return
		}
		if m.part != last {
			all = all && named
			parts, last, named = parts+1, m.part, false
		}
		named = named || m.ref == thePlayer
		sum.add(m.v, m.h)
	}
	apart := sum.v == conflict || sum.h == conflict || e.bare && !r.placed && parts == len(r.mentions)
	if parts < 2 || !(e.bare && all && named) && !(apart && (e.bare || e.count == parts)) {
		return
	}
	last, group := r.mentions[0].part, 0
	for k := range r.mentions {
		m := &r.mentions[k]
		if m.part != last {
			group, last = group+1, m.part
			r.uniques++
			r.subject = append(r.subject, r.entity(r.entities[r.subject[0]].kind, -r.uniques, 1))
		}
		m.group = group
	}
	r.entities[r.subject[0]].count = 1
	r.divided = true
}

// share gives the n-th group of directions to the n-th object of the subject, as
// "respectively" says. Groups are separated by a comma or "and".
func (r *reader) share() bool {
	if !r.respective || len(r.subject) == 0 || r.subject[0] < 0 {
		return false
	}
	group, last := -1, -1
	for k := range r.mentions {
		m := &r.mentions[k]
		if m.part != last {
			group, last = group+1, m.part
		}
		m.group = group
	}
	if e := &r.entities[r.subject[0]]; len(r.subject) == 1 && e.count == group+1 { // the two holes are …
		e.count = 1
		kind := e.kind
		for range group {
			r.uniques++
			r.subject = append(r.subject, r.entity(kind, -r.uniques, 1))
		}
	}
	if group+1 != len(r.subject) {
		r.mentions = r.mentions[:0] // the groups are not those of the objects
		return false
	}
	return true
}
