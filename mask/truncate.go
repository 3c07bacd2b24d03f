package mask

// Truncate keeps the first n tokens and returns how many turns were lost.
//
// A turn that crosses the cut is lost completely, because half a response is not an
// action of the model. Its remaining tokens stay in the row as observation: they are
// read but not trained on. Spans that cross the cut are removed, too. An n of Len or more
// changes nothing; a negative n counts as 0.
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

// Trim truncates per-token numbers to the length of the row and sets those after the
// last turn to 0, in place. After Truncate it makes rewards and similar columns match the
// tokens: a lost turn has no reward. A slice shorter than the row keeps its length.
func (s *Sequence) Trim(perToken []float32) []float32 {
	if len(perToken) < s.Len() {
		return perToken
	}
	perToken = perToken[:s.Len()]
	clear(perToken[s.LastResponse()+1:])
	return perToken
}
