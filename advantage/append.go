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
// Masks that are switched off stay absent. Forced tokens are treated like chosen ones,
// so that a reward on them counts; [mask.Sequence.Loss] excludes them from the policy's
// loss. The caller appends Baselines and States if the estimator needs them.
//
// Rewards and values must have the length of the sequence; otherwise the error is an
// ErrLength and the batch is unchanged. A nil batch or sequence is an ErrNil.
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
	if len(b.Offsets) == 0 {
		b.Offsets = append(b.Offsets, 0)
	}
	b.Rewards = append(b.Rewards, r.Rewards...)
	b.Values = append(b.Values, r.Values...)
	if o.UseLossMask {
		b.Loss = s.Response(b.Loss)
	}
	if o.UseGAEMask {
		b.GAE = s.Advantage(b.GAE, o)
	}
	b.TurnEnd = s.TurnEnd(b.TurnEnd)
	b.Group = append(b.Group, r.Group)
	b.Trajectory = append(b.Trajectory, r.Trajectory)
	b.Turn = append(b.Turn, r.Turn)
	b.Offsets = append(b.Offsets, len(b.Rewards))
	return nil
}
