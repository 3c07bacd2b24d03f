package mask

import "fmt"

// Marks find the responses of a row by two special tokens around each of them, for rows
// of other systems. Sequences that are recorded while their tokens are produced do not
// need them.
type Marks struct {
	Begin, End int32 // different token ids
}

// FromMarks returns the sequence of a marked row without padding. The marks are removed;
// the tokens between a pair are one turn, and an empty pair is not a turn. Context before
// the first turn is Prompt, all other context Observation. Marks that do not enclose a turn, as where truncation has
// removed one, are an ErrOrphanMark.
func FromMarks(ids []int32, m Marks) (*Sequence, error) {
	if m.Begin == m.End {
		return nil, fmt.Errorf("mask: marks: begin and end are both %d: %w (must be different ids)", m.Begin, ErrOrphanMark)
	}
	s := new(Sequence)
	open := -1 // position of the begin mark of an open turn
	from := 0  // first token not yet in the sequence
	for t, id := range ids {
		switch {
		case id == m.Begin && open >= 0:
			return nil, fmt.Errorf("mask: marks: position %d: begin mark inside the turn begun at %d: %w", t, open,
				ErrOrphanMark)
		case id == m.Begin:
			s.addContext(ids[from:t])
			open, from = t, t+1
		case id == m.End && open < 0:
			return nil, fmt.Errorf("mask: marks: position %d: end mark outside a turn: %w", t, ErrOrphanMark)
		case id == m.End:
			if from < t {
				s.turn(ids[from:t], false)
			}
			open, from = -1, t+1
		}
	}
	if open >= 0 {
		return nil, fmt.Errorf("mask: marks: position %d: the turn that begins here has no end mark: %w", open, ErrOrphanMark)
	}
	s.addContext(ids[from:])
	return s, nil
}

// addContext appends context of the kind that its position implies.
func (s *Sequence) addContext(ids []int32) {
	kind := Prompt
	if s.turns > 0 {
		kind = Observation
	}
	s.context(kind, ids)
}
