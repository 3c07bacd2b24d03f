package mask

// Truncate keeps the first n tokens and returns how many turns were lost.
//
// A turn that crosses the cut is lost as a whole: half a response is no action
// the model took. Its remaining tokens stay in the row as observation, so they
// are read but never trained on. Spans that cross the cut go as well. An n of
// Len or more changes nothing; a negative n keeps nothing.
func (s *Sequence) Truncate(n int) (lost int) {
	n = max(n, 0)
	if n >= s.Len() {
		return 0
	}
	s.tokens = s.tokens[:n]
	kept := s.segments[:0]
	start := 0
	for _, g := range s.segments {
		whole := g.end <= n
		if g.kind == Response && !whole {
			lost++
			s.turns--
			g.kind, g.summary = Observation, false
		}
		if start < n {
			g.end = min(g.end, n)
			kept = appendSegment(kept, g)
		}
		start = max(start, g.end)
	}
	s.segments = kept
	spans := s.spans[:0]
	for _, p := range s.spans {
		if p.end <= n && s.turnOf(p.start, p.end) >= 0 {
			spans = append(spans, p)
		}
	}
	s.spans = spans
	return lost
}

// appendSegment keeps the rule that context pieces of one kind are one piece.
func appendSegment(dst []segment, g segment) []segment {
	if n := len(dst); n > 0 && g.kind != Response && dst[n-1].kind == g.kind {
		dst[n-1].end = g.end
		return dst
	}
	return append(dst, g)
}
