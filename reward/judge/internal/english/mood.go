package english

// span is a part of a sentence that states nothing.
type span struct{ from, to int }

// silences returns the parts of a sentence that assert nothing about the present: instructions to a
// judge, hedges, conditions, wishes, statements that something is not seen, and statements about the past.
func (r *reader) silences(i, end int) []span {
	var list []span
	for k := i; k < end; k++ {
		c := r.tokens[k].class
		if c == silent || c == judge {
			return []span{{i, end}}
		}
		if c != condition && c != hedge && c != past && (c != not || !r.is(k+1, end, see)) {
			continue
		}
		from, to := r.clauseAt(i, k, end)
		switch {
		case c == condition:
			for to = k + 1; to < end && r.tokens[to].class != but; to++ {
			}
		case c == hedge:
			if r.is(to, end, colon) {
				to = end // my guess: …
			}
			// A doubt on its own is about what stands before it: "above me, but I am not sure".
			if from > i && !r.has(from, to, dir, level, axis, align) && (!r.is(from, end, but) || !r.has(from, to, object)) {
				from, _ = r.clauseAt(i, from-1, end)
			}
		}
		list = append(list, span{from, to})
	}
	return list
}

// has reports whether a token of some classes stands between two.
func (r *reader) has(from, to int, classes ...class) bool {
	for k := from; k < to; k++ {
		if r.is(k, to, classes...) {
			return true
		}
	}
	return false
}

// clauseAt returns the clause around the token k.
func (r *reader) clauseAt(i, k, end int) (from, to int) {
	for from = k; from > i && !r.breaks(from, i, end); from-- {
	}
	for to = k + 1; to < end && !r.breaks(to, from, end); to++ {
	}
	return from, to
}

// breaks reports whether a clause starts with the token k, where the one before starts at from.
func (r *reader) breaks(k, from, end int) bool {
	t := &r.tokens[k]
	switch {
	case r.is(k, end, but, fix, colon):
		return true
	case !r.is(k, end, and, comma, or):
		return false
	case r.is(k+1, end, in):
		return t.class == comma && r.has(from, k, dir, level, axis, align)
	case r.is(k+1, end, object, det, pron, me, my, indefinite, its, both, hedge, no, but, past, see, other, motion):
		return t.class == comma && t.text != "[" || r.has(from, k, dir, level, axis, align)
	}
	return t.class == comma && r.is(k+1, end, comma)
}
