package english

import "slices"

// given is what places a sentence gives a noun.
type given struct {
	noun chunk
	run  []chunk
}

// runAt returns the places from k that one noun has, and the index after them.
func (r *reader) runAt(k int) (run []chunk, next int) {
	for m := k; m < len(r.chunks); m++ {
		switch c := &r.chunks[m]; {
		case c.class == dir && c.travel != r.chunks[k].travel:
			return run, next
		case c.class == dir:
			p := *c
			p.part = m > k && next < m
			run = append(run, p)
			next = m + 1
		case !c.class.in(and, comma, but):
			return run, next
		}
	}
	return run, next
}

// shareReferences gives a place without a reference that of the places beside it: "above and to the
// left of me".
func (r *reader) shareReferences() {
	for k := 0; k < len(r.chunks); k++ {
		if !r.chunkIs(k, dir) {
			continue
		}
		_, next := r.runAt(k)
		run, ref := r.chunks[k:next], nothing
		share := func(c *chunk) {
			if c.ref == nothing {
				c.ref = ref
			}
			if c.class == dir {
				ref = c.ref
			}
		}
		for m := len(run) - 1; m >= 0; m-- {
			if share(&run[m]); run[m].class == but || run[m].class == comma {
				ref = nothing
			}
		}
		ref = nothing
		for m := range run {
			share(&run[m])
		}
		k = next - 1
	}
}

// offers silences the places that "or" joins.
func (r *reader) offers() {
	for k := range r.chunks {
		for _, step := range []int{-1, 1} {
			found := false
			for m := k + step; r.chunkIs(k, or) && m >= 0 && m < len(r.chunks); m += step {
				c := &r.chunks[m]
				if c.class.in(but, colon) || found && !c.class.in(dir, comma) {
					break
				}
				if c.class == dir && !c.denied {
					c.mute, found = true, true
				}
			}
		}
	}
}

// subject is what the places of a sentence are given to, from left to right.
type subject struct {
	noun    *chunk
	front   []chunk // places that the noun after them has
	scope   []chunk // "in my row, …": places of each noun that follows
	given   []chunk // the places given last
	fronted bool    // places precede their nouns
	used    bool    // front was given to a noun
	bare    bool    // the noun has no place yet
	alike   bool    // "so is …"
	equals  bool    // after a verb
	own     bool    // the sentence has a noun
}

// assign gives the places of a sentence to its nouns.
func (r *reader) assign(ends class) {
	s := subject{noun: r.topic, front: r.front, given: r.last}
	topic := r.topic
	r.front, r.topic = nil, nil
	for k := 0; k < len(r.chunks); k++ {
		switch c := &r.chunks[k]; c.class {
		case dir:
			k = r.placed(&s, k)
		case object:
			s.own = true
			r.likewise(&s)
			r.named(&s, c, k)
			s.equals = false
		case be:
			s.equals = true
		case reach:
			r.leads = true
		case like:
			s.alike = s.given != nil
		case fix:
			r.replace, s.front, s.given = true, nil, nil
		}
	}
	r.likewise(&s)
	r.last = s.given
	r.carry(&s, topic, ends)
}

// carry keeps the noun of a question or a heading, and the places of one, for the next sentence.
func (r *reader) carry(s *subject, topic *chunk, ends class) {
	if s.noun != nil && s.bare {
		noun := *s.noun
		r.topic = &noun
	} else if topic != nil && !s.own && ends == line {
		r.topic = topic
	}
	if !s.used && (r.asking || ends == line) {
		r.front = s.front
	}
	r.replace = r.replace && !s.own
}

// placed reads the places at k and returns the last of them: they are of the subject, or of a noun
// that follows.
func (r *reader) placed(s *subject, k int) int {
	run, next := r.runAt(k)
	c := &r.chunks[k]
	switch n := len(run) - 1; {
	case c.travel && !r.leads && c.ref != player: // a plan
	case r.inverts(k, next, s, run):
		if s.noun != nil && !s.fronted && n > 0 && run[n].part {
			r.give(*s.noun, run[:n])
			run = run[n:]
		}
		s.front, s.used, s.fronted = run, false, true
		if !slices.ContainsFunc(run, func(p chunk) bool { return !p.plain }) && r.chunkIs(next, comma) {
			s.scope = run
		}
	case s.noun != nil:
		r.give(*s.noun, run)
		s.given, s.bare, s.front = run, false, nil
	}
	return next - 1
}

// named reads the noun c at k: it has the places before it, joins the subject or replaces it.
func (r *reader) named(s *subject, c *chunk, k int) {
	after := r.chunkIs(k-1, and, comma, but, object)
	row := chunk{class: dir, at: c.at, ref: player, plain: true}
	if s.noun != nil {
		row.place = s.noun.axis
	}
	switch has := row.place != (place{}); {
	case has && s.equals && c.who[0] == player && c.axis == (place{}): // its row is mine
		r.give(*s.noun, []chunk{row})
	case has && s.noun.who[0] == player && r.chunkIs(k-1, be, see):
		r.give(*c, []chunk{row}) // my row contains the box
		s.noun, s.bare, s.front, s.fronted = c, false, nil, false
	case s.front != nil && (!s.used || after && !r.placeNext(k)):
		r.give(*c, s.front)
		s.given, s.used, s.noun, s.bare = s.front, true, c, false
	case s.scope != nil:
		r.give(*c, s.scope)
		s.noun, s.bare, s.front, s.fronted = c, true, nil, false
	case s.noun != nil && r.joined(k) && !s.used:
		both := *s.noun
		both.who, both.loose = append(append([]int{}, both.who...), c.who...), false
		s.noun, s.bare = &both, true
	default:
		s.noun, s.bare, s.front, s.fronted = c, true, nil, false
	}
}

// likewise gives the places that were given last to a noun without places: "so is the box".
func (r *reader) likewise(s *subject) {
	if s.bare && s.alike && s.given != nil && s.noun != nil {
		r.give(*s.noun, s.given)
		s.bare, s.alike = false, false
	}
}

// joined reports whether only "and" and commas stand between the noun at k and the one before it.
func (r *reader) joined(k int) bool {
	m := k - 1
	for r.chunkIs(m, and, comma) {
		m--
	}
	return m < k-1 && r.chunkIs(m, object)
}

// placeNext reports whether a place follows the noun at k before the next noun.
func (r *reader) placeNext(k int) bool {
	for k++; k < len(r.chunks) && !r.chunkIs(k, object); k++ {
		if r.chunkIs(k, dir) {
			return true
		}
	}
	return false
}

// inverts reports whether the places from k to next are those of the noun after them: "to my left
// is the box".
func (r *reader) inverts(k, next int, s *subject, run []chunk) bool {
	if s.noun != nil && r.chunkIs(k-1, be) && !run[len(run)-1].part {
		return false
	}
	verb, mark := false, false
	for m := next; m < len(r.chunks); m++ {
		switch r.chunks[m].class {
		case object:
			return s.noun == nil || verb && !mark || s.fronted && k > 0 && !r.chunkIs(k-1, object)
		case be, see, colon:
			verb = true
		case comma, and:
			mark = true
		case dir, but:
			return s.noun == nil && r.chunkIs(m, dir)
		}
	}
	return s.noun == nil
}

// give states places of a noun. A plural without a number has as many things as places.
func (r *reader) give(n chunk, run []chunk) {
	if r.asking {
		r.held = append(r.held, given{n, run})
		return
	}
	isPart := func(p chunk) bool { return p.part }
	if n.loose && (slices.ContainsFunc(run, isPart) || r.started(n.who[0])) {
		who := n.who[0]
		for k := range run {
			if run[k].part || k == 0 && r.started(who) {
				who = r.add(n.kind, 0)
			}
			r.state(who, run[k])
		}
		return
	}
	mine, things := false, 0
	for _, w := range n.who {
		if mine = mine || w == player; w >= 0 {
			things++
		}
	}
	for _, w := range n.who {
		for _, p := range run {
			switch {
			case w != player && mine && p.ref == nothing && !p.plain,
				!mine && things > 1 && n.many == 0 && p.plain && p.ref == nothing: // they share a row
				continue
			}
			r.state(w, p)
		}
	}
}

// state states a place of a thing, or of the player relative to a thing.
func (r *reader) state(who int, p chunk) {
	ref := p.ref
	if ref == nothing {
		ref = r.base
	}
	switch {
	case p.mute:
	case who >= 0 && ref == player:
		r.assert(who, p.place, p.exact, p.denied)
	case who == player && ref >= 0:
		for a, v := range p.place {
			if v == less || v == after {
				p.place[a] = less + after - v
			}
		}
		r.assert(ref, p.place, p.exact, p.denied)
	}
}
