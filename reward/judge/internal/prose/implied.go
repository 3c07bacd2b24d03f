package prose

// implied reads "the first one", "the other" and "one" for objects named before.
func (r *reader) implied(i, end int) ([]int, int) {
	t := &r.tokens[i]
	next := i + 1
	if next < end && r.tokens[next].class == number && r.tokens[next].n == 1 {
		next++
	}
	switch r.tokens[r.skip(next, end)].class {
	case verb, direction, toward, placing, same, precise, stop, question:
	default:
		return nil, i // first of all, on the other hand
	}
	switch t.class {
	case ordinal:
		return r.fromList(t.n - 1), next
	case other:
		if len(r.listed) == 2 {
			if len(r.recent) == 1 && r.recent[0] == r.listed[0] {
				return []int{r.listed[1]}, next
			}
			return []int{r.listed[0]}, next
		}
		if len(r.recent) > 0 {
			r.uniques++
			return []int{r.entity(r.entities[r.recent[0]].kind, -r.uniques, 1)}, next
		}
	case number:
		if len(r.recent) > 0 && t.n == 1 && r.entities[r.recent[0]].label < 0 && r.tokens[i+1].class == verb {
			r.plural = r.entities[r.recent[0]].kind // "one box is above me, one is …"
		}
		if !r.measured && r.plural != "" && t.n > 0 {
			r.uniques++
			return []int{r.entity(r.plural, -r.uniques, min(t.n, maxCount))}, i + 1
		}
	}
	return nil, i
}

// pronoun reads "it" and "they" as the objects spoken of last.
func (r *reader) pronoun(i, end int) int {
	if m := (mention{}); r.tokens[i].b == own && i+1 < end && r.tokens[i+1].class == line && len(r.subject) > 0 && r.subject[0] == thePlayer && r.tokens[min(i+2, end)].class != verb {
		m.set(r.tokens[i+1].a) // in its column
		m.ref = r.antecedent()
		r.state(m)
		return i + 2
	}
	if r.tokens[i].b == own && r.leadsToDirection(i+1, end) {
		return i + 1 // to its left
	}
	if len(r.recent) == 0 || r.base >= 0 && len(r.subject) > 0 || r.fromTo {
		return i + 1
	}
	if len(r.subject) > 0 && len(r.mentions) == 0 && r.subject[0] == r.recent[0] && !r.negated {
		return i + 1
	}
	kept := append([]int(nil), r.recent...)
	r.begin(kept, false)
	return i + 1
}

// quantity reads a distance, which says nothing unless it is zero.
func (r *reader) quantity(i, end int) (int, bool) {
	t := &r.tokens[i]
	next := r.skip(i+1, end)
	if next >= end {
		return 0, false
	}
	switch r.tokens[next].class {
	case unit, line, cell:
		r.measured = true
		if t.n == 0 {
			return r.distance(next, end), true
		}
		return next + 1, true
	case direction, toward, placing:
		if r.measured || r.plural == "" || r.single && len(r.mentions) == 0 && len(r.subject) > 0 {
			r.measured = true
			return i + 1, true
		}
	}
	return 0, false
}

// distance reads zero rows or columns: the object is in the same one.
func (r *reader) distance(i, end int) int {
	m := mention{ref: noReference}
	switch t := &r.tokens[i]; {
	case t.class == line && t.a == rowAxis:
		m.v = equal
	case t.class == line:
		m.h = equal
	}
	i++
	for ; i < end; i++ {
		switch t := &r.tokens[i]; t.class {
		case or, filler, toward, placing, and:
			if t.class == and && !(i+1 < end && r.tokens[i+1].class == direction) {
				break
			}
			continue
		case direction:
			if m.v == 0 && m.h == 0 { // zero steps up
				if t.a&0xf != 0 {
					m.v = equal
				} else {
					m.h = equal
				}
			}
			continue
		}
		break
	}
	if m.v|m.h != 0 {
		was := r.negated
		r.negated = false
		r.state(m)
		r.negated = was
	}
	return i
}
