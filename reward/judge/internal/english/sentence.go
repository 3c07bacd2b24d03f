package english

import (
	"fmt"
	"slices"
	"strings"
)

// clause is what the words of a sentence so far say about those after them.
type clause struct {
	base     int  // what places without a reference are relative to
	leads    bool // "from me to the box": its motions lead to an object
	observer bool // "the player sees …": its and it are the player
	denied   bool // after "not"
	deniedAt int
	travel   bool // after a verb of motion
}

// sentence reads the tokens from i to end, the mark that ends it.
func (r *reader) sentence(i, end int) {
	ends := r.tokens[end].class
	if r.repeats(i, end) {
		return
	}
	wasAsking, held := r.asking, r.held
	r.asking, r.held = false, nil
	switch {
	case ends == ask:
	case r.is(i, end, yes):
		for _, h := range held {
			r.give(h.noun, h.run)
		}
	case r.is(i, end, no) && (i+1 == end || r.is(i+1, end, comma, dir)):
		if r.replace = !wasAsking; wasAsking && len(held) > 0 {
			r.topic = &held[0].noun
		}
	}
	r.asking = ends == ask
	silent := r.silences(i, end)
	r.cut(i, end)
	for k := range r.chunks {
		for _, s := range silent {
			c := &r.chunks[k]
			c.mute = c.mute || c.at >= s.from && c.at < s.to
		}
	}
	r.shareReferences()
	r.offers()
	r.assign(ends)
}

// repeats reports whether a sentence was read before, about the same if it has a pronoun.
func (r *reader) repeats(i, end int) bool {
	if r.topic != nil || r.front != nil {
		return false
	}
	var b strings.Builder
	for k := i; k < end; k++ {
		b.WriteString(r.tokens[k].text + " ")
		if r.is(k, end, pron) {
			b.WriteString(fmt.Sprint(r.recent))
		}
	}
	key := b.String()
	if slices.Contains(r.seen, key) {
		return true
	}
	if len(r.seen) < maxSeen {
		r.seen = append(r.seen, key)
	}
	return false
}

// maxSeen limits the sentences that are remembered.
const maxSeen = 256

// cut splits the tokens from i to end into chunks.
func (r *reader) cut(i, end int) {
	r.chunks, r.clause = r.chunks[:0], clause{base: player}
	for k := i; k < end; {
		next := k
		for _, rule := range [...]func(i, k, end int) int{r.baseAt, r.positionAt, r.onAt, r.spotAt, r.nameAt, r.nearAt, r.equalAt} {
			if next = rule(i, k, end); next > k {
				break
			}
		}
		if next == k {
			r.word(k, end)
			next++
		}
		k = next
	}
}

// baseAt reads "relative to me," and "from the hole", which the places after it are relative to.
func (r *reader) baseAt(i, k, end int) int {
	if k > i && !r.is(k-1, end, comma, but, and) || !r.is(k, end, of, from) {
		return k
	}
	if c, next := r.amongAt(k, end); next > 0 && r.is(next, end, comma) {
		r.group, r.plural = c.kind, true // of the two boxes, one is …
		return next
	}
	t := &r.tokens[k]
	c, next := r.nounAt(k+1, end)
	marked := r.is(next, end, comma, colon)
	if next == k+1 || t.class == of && (t.text == "as" || t.text == "of") || !marked && (t.text == "to" || t.text == "with") {
		return k
	}
	r.base = c.who[0]
	if r.text(next, end) == "to" {
		_, after := r.nounAt(next+1, end)
		r.leads = after > next+1
	}
	return next
}

// positionAt reads a position of the last noun: a pair in brackets, or the number of a row or column.
func (r *reader) positionAt(_, k, end int) int {
	set := func(a, n int) {
		if r.numbered == nil {
			r.numbered = map[int]*[2]int{}
		}
		who := r.speaker()
		if r.numbered[who] == nil {
			r.numbered[who] = new([2]int)
		}
		r.numbered[who][a] = n + 1
	}
	t := &r.tokens[k]
	switch n := len(r.chunks); {
	case t.class == comma && r.is(k+1, end, num) && r.is(k+2, end, comma) && r.is(k+3, end, num) && (t.text == "(" || t.text == "["):
		set(0, r.tokens[k+1].n)
		set(1, r.tokens[k+3].n)
		return k + 4
	case t.class == ordinal && r.is(k+1, end, axis):
		set(r.tokens[k+1].at.axis(), t.n)
		return k + 2
	case t.class == axis:
		m := k + 1
		for r.is(m, end, colon, be, cell) {
			m++
		}
		if r.is(m, end, num) && !r.is(m+1, end, dir, unit, cell, exact) {
			set(t.at.axis(), r.tokens[m].n)
			return m + 1
		}
	case t.class == num && n > 1 && (r.chunks[n-1].class == be || r.chunks[n-1].class == colon) && r.chunks[n-2].axis != (place{}):
		if !r.is(k+1, end, dir, unit, axis, cell, exact) {
			set(r.chunks[n-2].axis.axis(), t.n)
			return k + 1
		}
	}
	return k
}

// axis returns 0 for a row and 1 for a column.
func (p place) axis() int {
	if p[0] != 0 {
		return 0
	}
	return 1
}

// onAt reads "on the target" of the player.
func (r *reader) onAt(_, k, end int) int {
	if r.text(k, end) == "on" && r.speaker() == player {
		if n, next := r.nounAt(k+1, end); next > k+1 && n.who[0] >= 0 && n.axis == (place{}) && !r.is(next, end, poss) {
			r.chunks = append(r.chunks, chunk{class: dir, at: k, place: place{equal, equal}, ref: n.who[0], plain: true, denied: r.denied})
			return next
		}
	}
	return k
}

// spotAt reads a phrase for a place.
func (r *reader) spotAt(_, k, end int) int {
	if _, one := r.oneOf(chunk{}, phraseOf{}, k, k, end); one > k {
		return k
	}
	c, next := r.placeAt(k, end)
	if next > k {
		c.denied, c.travel = r.denied, r.travel
		if c.ref >= 0 && r.speaker() == player && (len(r.recent) == 0 || r.recent[0] != player) {
			r.recent = []int{c.ref} // I am above the goal; it …
		}
		r.chunks = append(r.chunks, c)
	}
	return next
}

// nameAt reads a noun phrase.
func (r *reader) nameAt(_, k, end int) int {
	c, next := r.nounAt(k, end)
	if next == k {
		return k
	}
	for m := len(r.chunks) - 1; m >= 0 && r.denied && r.chunks[m].at > r.deniedAt; m-- {
		r.denied = r.chunks[m].class != dir
	}
	switch {
	case r.is(k, end, pron) && r.is(next, end, see): // it has a box
	case r.is(k, end, det) && r.is(k+1, end, other) && next == k+2 && r.is(next, end, comma): // the other, the target
	case c.who[0] == player && c.axis == (place{}) && !r.acts(k, next, end):
		r.observer = r.observer || r.is(k, end, det) && r.is(next, end, see)
	default:
		r.travel = r.travel && r.is(k-1, end, motion)
		if c.who[0] != player {
			r.name(&c)
		} else if r.is(k, end, det) && r.speaker() == nothing && r.base == player {
			r.recent = c.who // the player, to whom "it" may refer
		}
		r.chunks = append(r.chunks, c)
	}
	return next
}

// nearAt reads "next to the box" and "near the top", which state no direction.
func (r *reader) nearAt(_, k, end int) int {
	if !r.is(k, end, near) || r.text(k, end) == "between" {
		return k
	}
	if r.is(k+1, end, det) && r.is(k+2, end, dir) {
		return k + 3
	}
	first := k + 1
	for r.is(first, end, of) {
		first++
	}
	c, next := r.nounAt(first, end)
	if next == first {
		return k
	}
	r.name(&c)
	if s := r.speaker(); (s == nothing || s == foreign) && c.who[0] >= 0 {
		r.chunks, r.travel = append(r.chunks, c), false
	}
	return next
}

// equalAt reads "the same as mine" after "its row is".
func (r *reader) equalAt(_, k, end int) int {
	for m := len(r.chunks) - 1; r.is(k, end, same) && m >= max(0, len(r.chunks)-3); m-- {
		if a := r.chunks[m].axis; a != (place{}) {
			c := chunk{class: dir, at: k, ref: nothing, place: a, plain: true, denied: r.denied}
			next := r.reference(&c, k+1, end)
			r.chunks = append(r.chunks, c)
			return next
		}
	}
	return k
}

// word reads a token that is part of no phrase.
func (r *reader) word(k, end int) {
	t := &r.tokens[k]
	switch t.class {
	case not:
		r.denied, r.deniedAt = true, k
	case no:
		r.denied, r.deniedAt = r.denied || r.is(k+1, end, dir), k
	case motion:
		r.travel, r.denied = true, false
	case but, fix, colon:
		r.denied, r.travel = false, false
	}
	switch t.class {
	case and, or, comma, colon, but, like, be, see, reach, fix:
		r.chunks = append(r.chunks, chunk{class: t.class, at: k})
	}
}

// speaker returns the first that the last noun names: nothing without one.
func (r *reader) speaker() int {
	for k := len(r.chunks) - 1; k >= 0; k-- {
		if r.chunks[k].class == object {
			return r.chunks[k].who[0]
		}
	}
	return nothing
}

// acts reports whether the player at i is placed, rather than an observer or a mover.
func (r *reader) acts(i, next, end int) bool {
	switch {
	case next == end, r.is(i-1, end, be):
		return r.is(i-1, end, be)
	case r.is(i-1, end, from, of):
		return false
	case r.is(next, end, be, share, colon, axis), r.text(next, end) == "(", r.text(next, end) == "[":
		return true
	case r.text(next, end) == "on", r.is(next, end, and, comma):
		if _, after := r.nounAt(next+1, end); after > next+1 {
			return true
		}
	}
	return r.placeFollows(next, end)
}

// name records what a noun names, for pronouns.
func (r *reader) name(c *chunk) {
	if c.kind != "" {
		r.group, r.plural = c.kind, c.loose || len(c.who) > 1 || r.plural && r.group == c.kind
	}
	n := len(r.chunks)
	switch {
	case c.who[0] < 0:
		return
	case n > 1 && (r.chunks[n-1].class == and || r.chunks[n-1].class == comma) && r.chunks[n-2].class == object && r.chunks[n-2].who[0] >= 0:
		r.recent = append(r.recent[:len(r.recent):len(r.recent)], c.who...)
		r.listed = r.recent
		return
	}
	r.recent = c.who
}
