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

// sentence reads the tokens from begin to end, the mark that ends it.
func (r *reader) sentence() {
	ends := r.tokens[r.end].class
	if r.repeats() {
		return
	}
	wasAsking, held := r.asking, r.held
	r.asking, r.held = false, nil
	switch {
	case ends == ask:
	case r.is(r.begin, yes):
		for _, h := range held {
			r.give(h.noun, h.run)
		}
	case r.is(r.begin, no) && (r.begin+1 == r.end || r.is(r.begin+1, comma, dir)):
		if r.replace = !wasAsking; wasAsking && len(held) > 0 {
			r.topic = &held[0].noun
		}
	}
	r.asking = ends == ask
	silent := r.silences()
	r.cut()
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
func (r *reader) repeats() bool {
	if r.topic != nil || r.front != nil {
		return false
	}
	var b strings.Builder
	for k := r.begin; k < r.end; k++ {
		b.WriteString(r.tokens[k].text + " ")
		if r.is(k, pron) {
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

// cut splits the tokens of the sentence into chunks.
func (r *reader) cut() {
	r.chunks, r.clause = r.chunks[:0], clause{base: player}
	for k := r.begin; k < r.end; {
		next := k
		for _, rule := range [...]func(k int) int{
			r.baseAt, r.positionAt, r.onAt, r.spotAt, r.nameAt, r.nearAt, r.equalAt,
		} {
			if next = rule(k); next > k {
				break
			}
		}
		if next == k {
			r.word(k)
			next++
		}
		k = next
	}
}

// baseAt reads "relative to me," and "from the hole", which the places after it are relative to.
func (r *reader) baseAt(k int) int {
	if k > r.begin && !r.is(k-1, comma, but, and) || !r.is(k, of, from) {
		return k
	}
	if c, next := r.amongAt(k); next > 0 && r.is(next, comma) {
		r.group, r.plural = c.kind, true // of the two boxes, one is …
		return next
	}
	t := &r.tokens[k]
	c, next := r.nounAt(k + 1)
	marked := r.is(next, comma, colon)
	if next == k+1 || t.class == of && (t.text == "as" || t.text == "of") || !marked && (t.text == "to" || t.text == "with") {
		return k
	}
	r.base = c.who[0]
	if r.text(next) == "to" {
		_, after := r.nounAt(next + 1)
		r.leads = after > next+1
	}
	return next
}

// positionAt reads a position of the last noun: a pair in brackets, or the number of a row or column.
func (r *reader) positionAt(k int) int {
	set := func(a, n int) {
		if r.numbered == nil {
			r.numbered = map[int][2]int{}
		}
		at := r.numbered[r.speaker()]
		at[a] = n + 1
		r.numbered[r.speaker()] = at
	}
	t := &r.tokens[k]
	switch n := len(r.chunks); {
	case t.class == comma && r.is(k+1, num) && r.is(k+2, comma) && r.is(k+3, num) && (t.text == "(" || t.text == "["):
		set(0, r.tokens[k+1].n)
		set(1, r.tokens[k+3].n)
		return k + 4
	case t.class == ordinal && r.is(k+1, axis):
		set(r.tokens[k+1].at.axis(), t.n)
		return k + 2
	case t.class == axis:
		m := k + 1
		for r.is(m, colon, be, cell) {
			m++
		}
		if r.is(m, num) {
			set(t.at.axis(), r.tokens[m].n)
			return m + 1
		}
	case t.class == num && n > 1 && r.chunks[n-2].axis != (place{}):
		if !r.is(k+1, dir, unit, axis, cell, exact) {
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
func (r *reader) onAt(k int) int {
	if r.text(k) == "on" && r.speaker() == player {
		if n, next := r.nounAt(k + 1); next > k+1 && n.who[0] >= 0 && n.axis == (place{}) && !r.is(next, poss) {
			r.chunks = append(r.chunks, chunk{class: dir, at: k, place: place{equal, equal}, ref: n.who[0], plain: true, denied: r.denied})
			return next
		}
	}
	return k
}

// spotAt reads a phrase for a place.
func (r *reader) spotAt(k int) int {
	if _, one := r.oneOf(chunk{}, phraseOf{}, k, k); one > k {
		return k
	}
	c, next := r.placeAt(k)
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
func (r *reader) nameAt(k int) int {
	c, next := r.nounAt(k)
	if next == k {
		return k
	}
	for m := len(r.chunks) - 1; m >= 0 && r.denied && r.chunks[m].at > r.deniedAt; m-- {
		r.denied = !r.chunkIs(m, dir)
	}
	switch {
	case r.is(k, pron) && r.is(next, see): // it has a box
	case c.who[0] == player && c.axis == (place{}) && !r.acts(k, next):
		r.observer = r.is(k, det) && r.is(next, see)
	default:
		r.travel = r.is(k-1, motion)
		if c.who[0] != player {
			r.name(&c)
		} else if r.is(k, det) && r.speaker() == nothing && r.base == player {
			r.recent = c.who // the player, to whom "it" may refer
		}
		r.chunks = append(r.chunks, c)
	}
	return next
}

// nearAt reads "next to the box" and "near the top", which state no direction.
func (r *reader) nearAt(k int) int {
	if !r.is(k, near) || r.text(k) == "between" {
		return k
	}
	if r.is(k+1, det) && r.is(k+2, dir) {
		return k + 3
	}
	first := k + 1
	for r.is(first, of) {
		first++
	}
	c, next := r.nounAt(first)
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
func (r *reader) equalAt(k int) int {
	for m := len(r.chunks) - 1; r.is(k, same) && m >= max(0, len(r.chunks)-3); m-- {
		if a := r.chunks[m].axis; a != (place{}) {
			c := chunk{class: dir, at: k, ref: nothing, place: a, plain: true, denied: r.denied}
			next := r.reference(&c, k+1)
			r.chunks = append(r.chunks, c)
			return next
		}
	}
	return k
}

// word reads a token that is part of no phrase.
func (r *reader) word(k int) {
	t := &r.tokens[k]
	switch t.class {
	case not:
		r.denied, r.deniedAt = true, k
	case no:
		r.denied, r.deniedAt = r.denied || r.is(k+1, dir), k
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
		if r.chunkIs(k, object) {
			return r.chunks[k].who[0]
		}
	}
	return nothing
}

// acts reports whether the player at i is placed, rather than an observer or a mover.
func (r *reader) acts(i, next int) bool {
	switch {
	case next == r.end:
		return r.is(i-1, be)
	case r.is(i-1, from, of):
		return false
	case r.is(next, be, share, colon, axis), r.text(next) == "(", r.text(next) == "[":
		return true
	case r.text(next) == "on", r.is(next, and, comma):
		if _, after := r.nounAt(next + 1); after > next+1 {
			return true
		}
	}
	return r.placeFollows(next)
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
	case r.chunkIs(n-1, and, comma) && r.chunkIs(n-2, object) && r.chunks[n-2].who[0] >= 0:
		r.recent = append(r.recent[:len(r.recent):len(r.recent)], c.who...)
		r.listed = r.recent
		return
	}
	r.recent = c.who
}
