package prose

import (
	"vagen/reward"
	"vagen/reward/judge/internal/words"
)

// entity is an object that a text mentions.
type entity struct {
	kind  string
	label int // of several objects of a kind; 0 without one
	count int
	// What the text states, as verticals and horizontals index it; conflict when it
	// states two values.
	v, h       uint8
	row, col   int    // absolute position, from 1; 0 without one
	many, bare bool   // named by a plural; without an article or a number
	corrected  [2]int // numbers of the sentences that replaced what was stated in each direction; 0 for none
}

const conflict = 255

// locate notes an absolute row or column of the subject.
func (r *reader) locate(axis uint8, n int) {
	if r.muted || r.inside || r.doubtful || r.denied {
		return
	}
	if axis == words.RowAxis && len(r.subject) == 1 && r.subject[0] >= 0 {
		if e := &r.entities[r.subject[0]]; e.many && e.row > 0 { // holes at (1, 2) and (3, 0)
			e.count = 1
			r.uniques++
			r.subject[0] = r.entity(e.kind, -r.uniques, 1)
			r.entities[r.subject[0]].many = true
		}
	}
	subject := r.subject
	if k := r.located[axis-1]; r.respective && len(subject) > 1 {
		r.located[axis-1]++
		if k >= len(subject) {
			return
		}
		subject = subject[k : k+1]
	}
	for _, id := range subject {
		at := &r.playerAt[axis-1]
		if id >= 0 {
			at = &r.entities[id].row
			if axis == words.ColumnAxis {
				at = &r.entities[id].col
			}
		}
		*at = n
		r.placed = true
	}
}

// state adds a direction of the subject.
func (r *reader) state(m mention) {
	m.negated, m.part = r.negated, r.part
	if r.offer && !m.negated {
		m.offered = true
		if n := len(r.mentions); n > 0 {
			r.mentions[n-1].offered = true
		}
	}
	r.offer = false
	r.mentions = append(r.mentions, m)
}

// flush ends a clause: what it states is added to its objects.
func (r *reader) flush() {
	r.limitDoubt()
	if len(r.subject) > 0 && !r.muted && !r.inside && !r.doubtful && !r.silent && !r.denied {
		if r.path != (mention{}) && len(r.mentions) == 0 && r.subject[0] >= 0 && (r.measured || !r.placed) {
			r.mentions = append(r.mentions, r.path) // …, and the target after three
		}
		r.replace()
		r.inScope()
		r.divide()
		r.resolve()
		shared := r.share() || r.divided
		var negV, negH uint8 // what neither … nor excludes
		for k := range r.mentions {
			m := &r.mentions[k]
			if m.negated {
				negV, negH = negV|1<<m.v, negH|1<<m.h
				continue
			}
			switch {
			case m.offered:
			case shared:
				whole := r.subject
				r.subject = whole[m.group : m.group+1]
				r.apply(m)
				r.subject = whole
			default:
				r.apply(m)
			}
		}
		const both = 1<<words.Before | 1<<words.After
		if n := (mention{ref: r.defaultReference()}); negV&both == both {
			n.v = words.Equal
			r.apply(&n)
		}
		if n := (mention{ref: r.defaultReference()}); negH&both == both {
			n.h = words.Equal
			r.apply(&n)
		}
	}
	r.repeat()
	r.mentions, r.doubtful, r.doubtAt = r.mentions[:0], false, -1
	r.clear()
}

// inScope adds the row or column that starts the sentence to a later clause: "in my row, the
// box is on the left and the target on the right". The first clause has to state the other
// direction, too.
func (r *reader) inScope() {
	n := len(r.mentions)
	if r.subject[0] < 0 || n == 0 {
		return
	}
	if r.scope == (mention{}) {
		m := &r.mentions[0]
		if r.fronted && r.ahead == 1 && n == 2 && !m.negated && (m.v == words.Equal && m.h == 0 || m.h == words.Equal && m.v == 0) && m.ref < 0 {
			if o := &r.mentions[1]; o.v == 0 && m.h == 0 || o.h == 0 && m.v == 0 {
				r.scope = mention{v: m.v, h: m.h, ref: thePlayer}
			}
		}
		return
	}
	for k := range r.mentions {
		m := &r.mentions[k]
		if m.v != 0 && r.scope.v != 0 || m.h != 0 && r.scope.h != 0 || m.negated || m.offered || m.ref >= 0 || m.exact {
			return
		}
	}
	m := r.scope
	m.part = r.mentions[n-1].part
	r.mentions = append(r.mentions, m)
}

// repeat gives the subject what the last object was given, if the clause says only that
// the same holds: "the hole likewise". It notes who that object is for the next clause.
func (r *reader) repeat() {
	if len(r.subject) == 0 || r.muted || r.inside || r.doubtful || r.silent || r.denied {
		return
	}
	switch {
	case r.subject[0] == thePlayer:
		for k := range r.mentions {
			if ref := r.mentions[k].ref; ref >= 0 {
				r.recent = append(r.recent[:0], ref) // "I am in its row, and above it"
			}
		}
	case len(r.mentions) > 0 && !r.so:
		r.last = r.subject[0]
	case r.likewise && r.last >= 0:
		for _, id := range r.subject {
			r.entities[id].add(r.entities[r.last].v, r.entities[r.last].h)
		}
	}
}

// resolve gives every direction its reference: its own, that of a direction before it
// or after it, or the default.
func (r *reader) resolve() {
	last := noReference
	var of entity // what was stated relative to the last reference
	for k := range r.mentions {
		m := &r.mentions[k]
		switch {
		case m.ref != noReference:
			if m.ref != last {
				last, of = m.ref, entity{}
			}
		case last >= 0 && (m.v != 0 && of.v != 0 || m.h != 0 && of.h != 0):
			continue // I am above the box, and above and left of the target
		default:
			m.ref = last
		}
		of.add(m.v, m.h)
	}
	next := r.defaultReference()
	for k := len(r.mentions) - 1; k >= 0; k-- {
		if r.mentions[k].ref == noReference {
			r.mentions[k].ref = next
		} else {
			next = r.mentions[k].ref
		}
	}
	for k := range r.mentions {
		if m := &r.mentions[k]; m.exact && !m.negated {
			if m.v == 0 {
				m.v = words.Equal
			} else if m.h == 0 {
				m.h = words.Equal
			}
		}
	}
}

func (r *reader) defaultReference() int {
	switch {
	case r.base != noReference:
		return r.base
	case len(r.subject) > 0 && r.subject[0] != thePlayer:
		return thePlayer
	}
	return otherwiseLocated
}

// limitDoubt drops the directions after a doubt such as "and maybe to the right", if those
// before it are of the other axis; the clause states the latter.
func (r *reader) limitDoubt() {
	if !r.doubtful || r.wasDoubtful || r.doubtAt < 1 || r.doubtAt >= len(r.mentions) {
		return
	}
	var v, h [2]bool
	for k, m := range r.mentions {
		after := 0
		if k >= r.doubtAt {
			after = 1
		}
		v[after], h[after] = v[after] || m.v != 0, h[after] || m.h != 0
	}
	if v[0] && v[1] || h[0] && h[1] {
		return
	}
	r.mentions, r.doubtful = r.mentions[:r.doubtAt], false
}

// apply adds a direction to the objects that it places relative to the player.
func (r *reader) apply(m *mention) {
	if r.subject[0] == thePlayer {
		if m.ref >= 0 {
			r.give(m.ref, opposite(m.v), opposite(m.h))
		}
		return
	}
	if m.ref != thePlayer {
		return
	}
	for _, id := range r.subject {
		r.give(id, m.v, m.h)
	}
}

// give adds directions to an object; a correction replaces those of earlier sentences or
// clauses, once.
func (r *reader) give(id int, v, h uint8) {
	e := &r.entities[id]
	r.stated = true
	if r.corrects && v != 0 && e.corrected[0] != r.turn {
		e.corrected[0], e.v = r.turn, 0
	}
	if r.corrects && h != 0 && e.corrected[1] != r.turn {
		e.corrected[1], e.h = r.turn, 0
	}
	e.add(v, h)
}

func opposite(x uint8) uint8 {
	switch x {
	case words.Before:
		return words.After
	case words.After:
		return words.Before
	}
	return x
}

func (e *entity) add(v, h uint8) {
	for _, p := range [2]struct {
		at    *uint8
		value uint8
	}{{&e.v, v}, {&e.h, h}} {
		switch {
		case p.value == 0 || *p.at == p.value:
		case *p.at == 0:
			*p.at = p.value
		default:
			*p.at = conflict
		}
	}
}

// relations returns what was read, object by object.
func (r *reader) relations() []reward.Relation {
	list := []reward.Relation{}
	for i := range r.entities {
		e := &r.entities[i]
		if e.row > 0 && r.playerAt[0] > 0 && (e.row >= extreme) == (r.playerAt[0] >= extreme) {
			e.add(order(e.row, r.playerAt[0]), 0)
		}
		if e.col > 0 && r.playerAt[1] > 0 && (e.col >= extreme) == (r.playerAt[1] >= extreme) {
			e.add(0, order(e.col, r.playerAt[1]))
		}
		if e.v == conflict {
			e.v = 0
		}
		if e.h == conflict {
			e.h = 0
		}
		if e.kind == "" || e.v == 0 && e.h == 0 {
			continue
		}
		for range e.count {
			list = append(list, reward.Relation{Object: e.kind, Vertical: words.Verticals[e.v], Horizontal: words.Horizontals[e.h]})
		}
	}
	return list
}

func order(a, b int) uint8 {
	switch {
	case a < b:
		return words.Before
	case a > b:
		return words.After
	}
	return words.Equal
}
