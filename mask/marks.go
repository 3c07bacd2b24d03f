package mask

import (
	"fmt"
	"slices"
)

// Marks find the responses of a row by two special tokens around each of them, for rows
// of other systems. Sequences that are recorded while their tokens are produced do not
// need them.
type Marks struct {
	Begin, End int32 // different token ids
	// PairByOrder pairs the k-th begin mark with the k-th end mark, regardless of the
	// tokens between them, and removes and shifts tokens as the original does. It
	// reproduces old runs: if truncation has removed a mark, later turns silently
	// lose their masks. Without PairByOrder, marks that do not enclose a turn give an
	// ErrOrphanMark.
	PairByOrder bool
}

// FromMarks returns the sequence of a marked row without padding. The marks are removed;
// the tokens between a pair are one turn, and an empty pair is not a turn. Context before
// the first turn is Prompt, all other context Observation.
func FromMarks(ids []int32, m Marks) (*Sequence, error) {
	if m.Begin == m.End {
		return nil, fmt.Errorf("mask: marks: begin and end are both %d: %w (must be different ids)", m.Begin, ErrOrphanMark)
	}
	if m.PairByOrder {
		return fromOrder(ids, m)
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
			s.addTurn(ids[from:t])
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

// addTurn appends a turn, if it has tokens.
func (s *Sequence) addTurn(ids []int32) {
	if len(ids) > 0 {
		s.turn(ids, false)
	}
}

// marked is a row with the two masks derived from its marks.
type marked struct {
	ids       []int32
	loss, end []bool
}

// fromOrder reproduces the original step by step. Each paired mark is a hole. The tokens
// between successive holes move left, one more position for each hole. Holes out of
// order enclose no tokens, and the tokens between them remain.
func fromOrder(ids []int32, m Marks) (*Sequence, error) {
	var begins, ends []int
	for t, id := range ids {
		switch id {
		case m.Begin:
			begins = append(begins, t)
		case m.End:
			ends = append(ends, t)
		}
	}
	row := marked{ids: ids, loss: make([]bool, len(ids)), end: make([]bool, len(ids))}
	var holes []int
	for k := range min(len(begins), len(ends)) {
		b, e := begins[k], ends[k]
		for t := b + 1; t < e; t++ {
			row.loss[t] = true
		}
		if e > 0 {
			row.end[e-1] = true
		}
		holes = append(holes, b, e)
	}
	holes = append(holes, len(ids))
	moved := row.clone()
	for i := range len(holes) - 1 {
		if err := moved.move(row, holes[i]+1, holes[i+1], i+1); err != nil {
			return nil, err
		}
	}
	return moved.sequence(len(ids) - len(holes) + 1), nil
}

func (r marked) clone() marked {
	return marked{ids: slices.Clone(r.ids), loss: slices.Clone(r.loss), end: slices.Clone(r.end)}
}

// move copies the tokens [from, to) of src to the left by a number of positions.
func (r marked) move(src marked, from, to, by int) error {
	if from >= to {
		return nil
	}
	if from < by {
		return fmt.Errorf("mask: marks: position %d: %d marks to remove, but %d tokens before it: %w", from, by, from,
			ErrOrphanMark)
	}
	copy(r.ids[from-by:], src.ids[from:to])
	copy(r.loss[from-by:], src.loss[from:to])
	copy(r.end[from-by:], src.end[from:to])
	return nil
}

// sequence returns the first n tokens as context and turns.
func (r marked) sequence(n int) *Sequence {
	s := new(Sequence)
	from := 0
	for t := range n {
		last := t+1 == n
		switch {
		case r.loss[t] && (r.end[t] || last || !r.loss[t+1]):
			s.addTurn(r.ids[from : t+1])
			from = t + 1
		case !r.loss[t] && (last || r.loss[t+1]):
			s.addContext(r.ids[from : t+1])
			from = t + 1
		}
	}
	return s
}
