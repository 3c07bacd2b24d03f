package advantage

import (
	"fmt"

	"vagen/mask"
)

// Row holds the data of one row besides its tokens.
type Row struct {
	Rewards []float32 // one per token
	Values  []float32 // one per token, or nil without a critic

	Group, Trajectory, Turn int // see Batch
}

// Append adds a row to the batch, with masks and turn ends from its sequence.
// Masks that are switched off stay absent. The caller appends Baselines and States if the
// estimator needs them.
//
// Rewards and values must have the length of the sequence, and all rows the same columns:
// values in every row or in none, the same options. Otherwise the error is an ErrLength that
// names row and column, and the batch is unchanged. A nil batch or sequence is an ErrNil.
func (b *Batch) Append(s *mask.Sequence, o mask.Options, r Row) error {
	if b == nil {
		return fmt.Errorf("advantage: append: batch: %w", ErrNil)
	}
	if s == nil {
		return fmt.Errorf("advantage: append: row %d: sequence: %w", b.Rows(), ErrNil)
	}
	n := s.Len()
	if len(r.Rewards) != n || r.Values != nil && len(r.Values) != n {
		return fmt.Errorf("advantage: append: row %d: %d tokens, %d rewards, %d values: %w",
			b.Rows(), n, len(r.Rewards), len(r.Values), ErrLength)
	}
	if err := b.sameColumns(n, o, r); err != nil {
		return fmt.Errorf("advantage: append: row %d: %w", b.Rows(), err)
	}
	if len(b.Offsets) == 0 {
		b.Offsets = append(b.Offsets, 0)
	}
	b.Rewards = append(b.Rewards, r.Rewards...)
	b.Values = append(b.Values, r.Values...)
	if !o.NoLossMask {
		b.Loss, b.Response = s.Loss(b.Loss, o), s.Response(b.Response)
	}
	if !o.NoGAEMask {
		b.GAE = s.Advantage(b.GAE, o)
	}
	b.TurnEnd = s.TurnEnd(b.TurnEnd)
	b.Group = append(b.Group, r.Group)
	b.Trajectory = append(b.Trajectory, r.Trajectory)
	b.Turn = append(b.Turn, r.Turn)
	b.Offsets = append(b.Offsets, len(b.Rewards))
	return nil
}

// sameColumns returns an error if a row of n tokens lacks a column that the batch has, or
// has one that it lacks.
func (b *Batch) sameColumns(n int, o mask.Options, r Row) error {
	if n == 0 {
		return nil
	}
	for _, column := range [...]struct {
		name string
		has  int
		gets bool
	}{
		{"values", len(b.Values), r.Values != nil}, {"attention", len(b.Attention), false},
		{"loss", len(b.Loss), !o.NoLossMask}, {"response", len(b.Response), !o.NoLossMask},
		{"gae", len(b.GAE), !o.NoGAEMask}, {"turn_end", len(b.TurnEnd), true},
	} {
		want := 0
		if column.gets {
			want = b.Tokens()
		}
		if column.has != want {
			return fmt.Errorf("%s: the rows before have %d entries for %d tokens, this row has %d for %d: %w",
				column.name, column.has, b.Tokens(), n*min(1, want), n, ErrLength)
		}
	}
	return nil
}
