package english

// What a place is relative to and what a noun names, apart from things, which have indices from 0.
const (
	nothing = -1 // not stated
	player  = -2
	foreign = -3 // neither the player nor an object
)

// chunk is a noun phrase, a phrase for a place, or a token that joins them.
type chunk struct {
	class class // object, dir, or that of the token
	at    int   // index of the first token

	// Of a noun.
	who   []int  // things, player or foreign
	kind  string // of the things
	loose bool   // a plural without a number, of which each place has its own thing
	many  int    // its number, if it has several things
	axis  place  // of "the row of …"

	// Of a place.
	place  place
	exact  bool // the direction that the text does not state is the same
	ref    int
	denied bool
	mute   bool // the sentence does not state it
	travel bool // where a motion leads
	plain  bool // "in the same row" and the like
	part   bool // it starts a part of a list of places
}

// phraseOf holds what a noun phrase has before its noun.
type phraseOf struct {
	named, indef, another, counted, void bool
	ord, count                           int
}

// is reports whether the token k is before the end of the sentence and of one of some classes.
func (r *reader) is(k int, classes ...class) bool {
	return k >= 0 && k < r.end && r.tokens[k].class.in(classes...)
}

// chunkIs is the same for the chunk k.
func (r *reader) chunkIs(k int, classes ...class) bool {
	return k >= 0 && k < len(r.chunks) && r.chunks[k].class.in(classes...)
}

// text returns the token k as written, or "" from the end of the sentence on.
func (r *reader) text(k int) string {
	if k < r.end {
		return r.tokens[k].text
	}
	return ""
}

// nounAt reads the noun phrase at i; the next index is i if there is none.
func (r *reader) nounAt(i int) (c chunk, next int) {
	c = chunk{class: object, at: i}
	var p phraseOf
	j := i
	for ; j < r.end && r.beforeNoun(&p, j); j++ {
	}
	if j == r.end {
		return r.oneOf(c, p, i, j)
	}
	if p.void {
		c.who = []int{foreign}
	}
	if inner, after := r.amongAt(j); after > 0 && p.ord > 0 { // the first of the holes
		inner.who, inner.at = []int{r.find(inner.kind, p.ord)}, i
		return inner, after
	}
	switch t := &r.tokens[j]; t.class {
	case num:
		if inner, after := r.amongAt(j + 1); after > 0 {
			inner.who, inner.at = r.several(inner.kind, t.n), i
			return inner, after
		}
	case my, its:
		return r.ownedAt(c, i, j)
	case me, we, pron, void:
		return r.pronounAt(c, i, j)
	case cell, axis:
		return r.partAt(c, p, i, j)
	case unknown:
		if p.another {
			break
		}
		if j == i || !p.named && !p.indef && !p.counted {
			return c, i
		}
		c.who = []int{foreign}
		return r.possession(c, j+1)
	case object:
		return r.thingAt(c, p, j)
	}
	return r.oneOf(c, p, i, j)
}

// beforeNoun reads a word before the noun, and reports whether the token j is one.
func (r *reader) beforeNoun(p *phraseOf, j int) bool {
	switch t := &r.tokens[j]; t.class {
	case det, both:
		p.named = true
	case indefinite:
		p.indef = true
	case other:
		p.another = true
	case no:
		p.void, p.indef = true, true
	case ordinal, last:
		if r.is(j+1, comma) {
			return false // first, …
		}
		if p.ord = t.n; t.class == last {
			p.ord = max(len(r.listed), 2)
		}
	case num:
		if _, after := r.amongAt(j + 1); after > 0 || !r.leadsToObject(j+1) {
			return false
		}
		p.count, p.counted = t.n, true
	case my:
		p.named = r.leadsToObject(j + 1)
		return r.leadsToObject(j+1) && !r.is(j+1, me)
	case unknown:
		return r.leadsToObject(j)
	default:
		return false
	}
	return true
}

// ownedAt reads "my position", "its row" and "my list".
func (r *reader) ownedAt(c chunk, i, j int) (chunk, int) {
	mine := r.tokens[j].class == my
	switch k := j + 1; {
	case r.is(k, cell, axis):
		if c.who = []int{player}; !mine {
			c.who = r.recall()
		}
		if r.tokens[k].class == axis {
			c.axis = r.tokens[k].at
		}
		return c, k + 1
	case mine && r.is(k, unknown):
		c.who = []int{foreign}
		return c, k + 1
	}
	return c, i
}

// pronounAt reads a pronoun or a word for the player; what stands for nothing known is no noun.
func (r *reader) pronounAt(c chunk, i, j int) (chunk, int) {
	t := &r.tokens[j]
	switch t.class {
	case me:
		c.who = []int{player}
	case we:
		c.who = append([]int{player}, r.recent...)
	case void:
		if inner, after := r.amongAt(j + 1); after > 0 { // none of the holes
			j, c.kind = after-1, inner.kind
		}
		c.who = []int{foreign}
	default:
		if len(r.recent) > 0 {
			c.who = r.recall()
		}
	}
	if len(c.who) == 0 {
		return c, i
	}
	return r.possession(c, j+1)
}

// partAt reads "the position of the box" and "the row of the player".
func (r *reader) partAt(c chunk, p phraseOf, i, j int) (chunk, int) {
	t, link := &r.tokens[j], r.text(j+1)
	if (p.named || j == i) && link == "of" {
		if inner, after := r.nounAt(j + 2); after > j+2 {
			if inner.at = i; t.class == axis {
				inner.axis = t.at
			}
			return inner, after
		}
	}
	return r.oneOf(c, p, i, j)
}

// amongAt reads "of the holes" after a number; the next index is 0 if there is nothing of the kind.
func (r *reader) amongAt(i int) (chunk, int) {
	if r.text(i) == "of" && !r.is(i+1, my) {
		for k := i + 1; k < min(i+4, r.end); k++ {
			if t := &r.tokens[k]; t.class == object && t.many {
				return chunk{class: object, kind: t.kind}, k + 1
			}
		}
	}
	return chunk{}, 0
}

// leadsToObject reports whether the name of an object follows, perhaps after adjectives.
func (r *reader) leadsToObject(i int) bool {
	for n := 0; i < r.end && n < 4; i, n = i+1, n+1 {
		switch t := &r.tokens[i]; t.class {
		case object:
			return true
		case me:
			return t.text != "i"
		case unknown, ordinal, other:
		default:
			return false
		}
	}
	return false
}

// thingAt reads the name of an object at j, with a number or letter after it.
func (r *reader) thingAt(c chunk, p phraseOf, j int) (chunk, int) {
	t, label, next := &r.tokens[j], p.ord, j+1
	switch {
	case r.is(next, num) && t.many && r.is(next+1, and) && r.is(next+2, num): // holes 1 and 2
		c.kind, c.many = t.kind, 2
		c.who = []int{r.find(t.kind, r.tokens[next].n), r.find(t.kind, r.tokens[next+2].n)}
		return c, next + 3
	case r.is(next, num) && !r.is(next+1, dir, unit, axis, cell, exact):
		label, next = r.tokens[next].n, next+1
	}
	c.kind = t.kind
	one := !t.many && label == 0
	switch {
	case p.indef && r.apposed(t.kind):
		c.who = r.chunks[len(r.chunks)-2].who // the box, a crate, …
	case len(c.who) > 0: // no hole
		r.recent = []int{r.find(t.kind, label)}
	case one && !p.named && !p.counted && !r.only(t.kind) && !r.is(next, be) && r.spoken(r.find(t.kind, 0)),
		one && r.count(t.kind) > 1 && p.named && r.spoken(r.find(t.kind, 0)) && r.placeFollows(next),
		p.count == 1, p.another, p.indef && one:
		c.who = []int{r.add(t.kind, 0)} // hole: left, hole: right
		c.loose = r.text(next) == "each"
	case p.count > 1 || t.many && !p.named:
		c.loose, c.many = p.count == 0, max(p.count, 1)
		c.who = r.several(t.kind, c.many)
	case t.many:
		c.who = r.every(t.kind)
	default:
		c.who = []int{r.find(t.kind, label)}
	}
	return r.possession(c, next)
}

// placeFollows reports whether a phrase for a place starts at i.
func (r *reader) placeFollows(i int) bool {
	_, next := r.placeAt(i)
	return next > i
}

// apposed reports whether a comma after a noun of a kind is the last chunk.
func (r *reader) apposed(kind string) bool {
	n := len(r.chunks)
	return r.chunkIs(n-1, comma) && r.chunkIs(n-2, object) && r.chunks[n-2].kind == kind
}

// spoken reports whether the text speaks of a thing already.
func (r *reader) spoken(k int) bool {
	for m := range r.chunks {
		if c := &r.chunks[m]; c.class == object && c.who[0] == k {
			return true
		}
	}
	return r.started(k)
}

// possession reads "'s row", "spot" and "row" after a noun.
func (r *reader) possession(c chunk, j int) (chunk, int) {
	k := j
	if r.is(k, poss) {
		if k++; !r.is(k, axis, cell) {
			return c, j
		}
		if r.tokens[k].class == axis {
			c.axis, k = r.tokens[k].at, k+1
		}
	}
	for r.is(k, cell) || r.text(k) == "each" {
		k++
	}
	return c, k
}

// oneOf reads "one", "two", "another", "the other one" and "the first" where no name follows.
func (r *reader) oneOf(c chunk, p phraseOf, i, j int) (chunk, int) {
	single := r.text(j) == "one"
	switch k := j; {
	case j > i && p.ord > 0 && len(r.listed) >= max(p.ord, 2) && !r.is(j, axis, cell):
		c.who = []int{r.listed[p.ord-1]}
		if single {
			k++
		}
		return c, k
	case r.group == "" || r.only(r.group):
		return c, i
	}
	single = single && (!r.is(j+1, dir, unit, axis, cell) || r.plural && r.is(j+1, dir))
	switch {
	case single, j > i && (p.another || p.ord > 0 && r.plural):
		if c.who = []int{foreign}; !p.another || !p.named || r.plural { // which one "the other" is, is not known
			c.who, c.kind = []int{r.add(r.group, 0)}, r.group
		}
		if single {
			j++
		}
		return c, j
	}
	return c, i
}

// recall returns what a pronoun stands for.
func (r *reader) recall() []int {
	switch {
	case r.observer:
		return []int{player} // the player has a box to its left
	case len(r.recent) == 0:
		return []int{foreign}
	case r.recent[0] == player:
		for n := len(r.chunks) - 1; n >= 0; n-- {
			if c := &r.chunks[n]; c.class == dir && c.ref >= 0 {
				return []int{c.ref}
			}
		}
	}
	return r.recent
}
