package english

// placePhrase is what a phrase for a place has before its direction.
type placePhrase struct {
	c                      chunk
	within, towards, owned bool
}

// placeAt reads the phrase for a place at i; the next index is i if there is none.
func (r *reader) placeAt(i int) (chunk, int) {
	p := placePhrase{c: chunk{class: dir, at: i, ref: nothing}}
	for j := i; j < r.end; {
		next := r.beforePlace(&p, i, j)
		if next == j {
			next = r.placeWord(&p, i, j)
			return p.c, next
		}
		j = next
	}
	return p.c, i
}

// placeWord reads the word that states a direction, and what it is relative to.
func (r *reader) placeWord(p *placePhrase, i, j int) int {
	switch t := &r.tokens[j]; t.class {
	case axis:
		return r.lineAt(p, i, j)
	case along:
		return r.alongAt(p, i, j)
	case same:
		return r.sameAt(p, i, j)
	case align:
		return r.alignedAt(p, i, j)
	case level:
		p.c.place, p.c.plain = t.at, true
		return r.reference(&p.c, j+1)
	case more:
		return r.moreAt(p, i, j)
	case dir:
		return r.directionsAt(&p.c, i, j)
	}
	return i
}

// beforePlace reads a word before the direction, and returns the next index: j if it is none.
func (r *reader) beforePlace(p *placePhrase, i, j int) int {
	t, c := &r.tokens[j], &p.c
	switch t.class {
	case det, indefinite, unit, both, num:
	case in, share:
		p.within = true
	case of, from:
		p.towards = true
	case exact:
		// "Exactly two rows up" and "the column directly left" leave the other direction open.
		c.exact = !(j == i && r.is(i-1, axis)) && !(t.option == "counted" && r.is(j+1, num, indefinite))
	case my:
		c.ref, p.owned = player, true
	case its:
		c.ref, p.owned = r.recall()[0], true
	case object, me: // the player's left
		if !p.within && !p.towards && t.class != me || !r.is(j+1, poss) {
			return j
		}
		if c.ref, p.owned = player, true; t.class == object {
			c.ref = r.find(t.kind, 0)
		}
		return j + 2
	case near: // directly next to me on the right
		if !c.exact || !r.is(j+1, of) {
			return j
		}
		j += 2
	case axis: // one row up
		if r.is(j+1, of) || j == i || r.is(i, share) || !r.is(j+1, dir) && !r.is(j-1, unit, indefinite) {
			return j
		}
	default:
		return j
	}
	return j + 1
}

// lineAt reads "in my row", "in the row of the player" and "a row with".
func (r *reader) lineAt(p *placePhrase, i, j int) int {
	t := &r.tokens[j]
	switch link := r.text(j + 1); {
	case r.is(j+1, more): // a row number larger than mine
		p.c.place = t.at.scaled(r.tokens[j+1].at[0])
		return r.reference(&p.c, j+2)
	case r.is(j+1, colon, comma) && r.is(j+2, same): // row: same
		j += 2
	case link == "with" && j > i, r.is(i, share), p.within && (p.owned || link == "of"):
	default:
		return i
	}
	p.c.place, p.c.plain = t.at, true
	return r.reference(&p.c, j+1)
}

// scaled returns a direction of the axis that p has.
func (p place) scaled(v uint8) place { return place{v * (p[0] / equal), v * (p[1] / equal)} }

// alongAt reads "vertically aligned" and "vertical: same"; before other words it says nothing.
func (r *reader) alongAt(p *placePhrase, i, j int) int {
	t, k := &r.tokens[j], j+1
	for r.is(k, colon, comma) {
		k++
	}
	switch p.c.plain = true; {
	case r.is(k, align):
		p.c.place = t.at
	case r.is(k, same) && !r.is(k+1, axis, level):
		p.c.place = place{t.at[1], t.at[0]}
	default:
		return i
	}
	return r.reference(&p.c, k+1)
}

// sameAt reads "in the same row as me" and "at the same place as the box".
func (r *reader) sameAt(p *placePhrase, i, j int) int {
	c, k := &p.c, j+1
	c.plain = true
	if r.is(k, axis, level, along) {
		c.place = r.tokens[k].at
		return r.reference(c, k+1)
	}
	return i
}

// alignedAt reads "aligned with me vertically".
func (r *reader) alignedAt(p *placePhrase, i, j int) int {
	next := r.reference(&p.c, j+1)
	for k := j + 1; k <= next && k < r.end; k++ {
		if r.tokens[k].class == along {
			p.c.place, p.c.plain = r.tokens[k].at, true
			return max(next, k+1)
		}
	}
	return i
}

// moreAt reads "a larger row index than me", and "larger" of a row.
func (r *reader) moreAt(p *placePhrase, i, j int) int {
	v := r.tokens[j].at[0]
	for k := j + 1; k < min(r.end, j+3); k++ {
		if t := &r.tokens[k]; t.class == axis {
			for p.c.place = t.at.scaled(v); r.is(k+1, cell); k++ {
			}
			return r.reference(&p.c, k+1)
		}
	}
	return i
}

// directionsAt reads directions such as "upper right", "up 1" and "above me".
func (r *reader) directionsAt(c *chunk, i, j int) int {
	takes, first := false, j
	for ; r.is(j, dir); j++ {
		t := &r.tokens[j]
		c.place[0] |= t.at[0]
		c.place[1] |= t.at[1]
		takes = t.option == "ref"
	}
	if r.is(first-1, det) && first > i && r.tokens[j].option == "region" {
		c.mute = true // in the upper left corner
		j++
	}
	for r.is(j, cell) {
		j++
	}
	if takes && c.ref == nothing {
		if n, k := r.nounAt(j); k > j {
			c.ref = n.who[0]
			return k
		}
		if r.is(j, unknown) && (j+1 == r.end || r.is(j+1, comma)) {
			c.ref = foreign // below expectations
		}
	}
	return r.reference(c, j)
}

// reference reads what a place is relative to, and returns the next index.
func (r *reader) reference(c *chunk, j int) int {
	k := j
	for r.is(k, of, from, unit) {
		k++
	}
	if c.ref != nothing || k == j {
		return j
	}
	if n, after := r.nounAt(k); after > k && !r.is(after, poss) {
		c.ref = n.who[0]
		return after
	}
	return j
}
