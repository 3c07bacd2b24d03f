package mask

import "fmt"

// span is a named part of one turn.
type span struct {
	name       string
	start, end int
}

// Span is a named part of a response, for instance its observation, prediction
// or answer section.
type Span struct {
	Name       string // as passed to AddSpan
	Turn       int    // index of its turn
	Start, End int    // first token, one past the last
}

// Forced is the name of spans of response tokens that the model did not choose, such as
// a closing tag that was inserted. They belong to the response and to the recursions over
// it, but not to the policy's loss.
const Forced = "forced tokens"

// AddSpan names the tokens in [start, end). The span must be non-empty and inside one
// turn, otherwise the error is an ErrSpan. Spans may overlap and may share names; they
// keep the order in which they were added.
func (s *Sequence) AddSpan(name string, start, end int) error {
	if start < 0 || start >= end || end > s.Len() {
		return fmt.Errorf("mask: span %q [%d, %d): %w (0 ≤ start < end ≤ %d)", name, start, end, ErrSpan, s.Len())
	}
	if s.turnOf(start, end) < 0 {
		return fmt.Errorf("mask: span %q [%d, %d): %w", name, start, end, ErrSpan)
	}
	s.spans = append(s.spans, span{name, start, end})
	return nil
}

// turnOf returns the turn that contains [start, end), or -1.
func (s *Sequence) turnOf(start, end int) int {
	for p := range s.Pieces {
		if p.Turn >= 0 && p.Start <= start && end <= p.End {
			return p.Turn
		}
	}
	return -1
}

// Spans yields the spans in the order in which they were added.
func (s *Sequence) Spans(yield func(Span) bool) {
	for _, p := range s.spans {
		if !yield(Span{Name: p.name, Turn: s.turnOf(p.start, p.end), Start: p.start, End: p.end}) {
			return
		}
	}
}

// Span appends the mask of the tokens that belong to any span of this name.
func (s *Sequence) Span(dst []bool, name string) []bool {
	n := len(dst)
	dst = fill(dst, s.Len(), false)
	row := dst[n:]
	for _, p := range s.spans {
		if p.name != name {
			continue
		}
		for i := p.start; i < p.end; i++ {
			row[i] = true
		}
	}
	return dst
}
