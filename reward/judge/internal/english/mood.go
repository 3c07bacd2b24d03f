package english

// span is a part of a sentence that states nothing.
type span struct{ from, to int }

// silences returns the parts of a sentence that assert nothing about the present: instructions to a
// judge, hedges, conditions, wishes, statements that something is not seen, and statements about the past.
func (r *reader) silences() []span {
	var list []span
	for k := r.begin; k < r.end; k++ {
		c := r.tokens[k].class
		if c.in(silent, judge) {
			return []span{{r.begin, r.end}}
		}
		if !c.in(condition, hedge, past) && (c != not || !r.is(k+1, see)) {
			continue
		}
		from, to := r.clauseAt(k)
		switch {
		case c == condition:
			for to = k + 1; to < r.end && !r.is(to, but); to++ {
			}
		case c == hedge:
			if r.is(to, colon) {
				to = r.end // my guess: …
			}
			// A doubt on its own is about what stands before it: "above me, but I am not sure".
			if from > r.begin && !r.has(from, to, dir, level, axis, align) && !r.has(from, to, object) {
				from, _ = r.clauseAt(from - 1)
			}
		}
		list = append(list, span{from, to})
	}
	return list
}

// has reports whether a token of some classes stands between two.
func (r *reader) has(from, to int, classes ...class) bool {
	for k := from; k < to; k++ {
		if r.is(k, classes...) {
			return true
		}
	}
	return false
}

// clauseAt returns the clause around the token k.
func (r *reader) clauseAt(k int) (from, to int) {
	for from = k; from > r.begin && !r.breaks(from, r.begin); from-- {
	}
	for to = k + 1; to < r.end && !r.breaks(to, from); to++ {
	}
	return from, to
}

// breaks reports whether a clause starts with the token k, where the one before starts at from.
func (r *reader) breaks(k, from int) bool {
	t := &r.tokens[k]
	switch {
	case r.is(k, but, fix, colon):
		return true
	case !r.is(k, and, comma, or):
		return false
	case r.is(k+1, in):
		return t.class == comma && r.has(from, k, dir, level, axis, align)
	case r.is(k+1, object, det, pron, me, my, indefinite, its, both, hedge, no, but, past, see, other, motion):
		return t.class == comma || r.has(from, k, dir, level, axis, align)
	}
	return t.class == comma && r.is(k+1, comma)
}
