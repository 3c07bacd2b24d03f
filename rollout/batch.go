package rollout

import (
	"fmt"

	"vagen/advantage"
	"vagen/mask"
	"vagen/policy"
	"vagen/reward"
)

// Batch holds the rows of trajectories as a learner and an estimator take them. Per-token
// slices are parallel to Rows.Tokens.
type Batch struct {
	Rows  policy.Rows     // for policy.Learner
	Steps advantage.Batch // for an advantage.Estimator; Values are nil until the caller sets them

	Used []*Trajectory // the usable trajectories, in the order given
	Of   []int         // per row, the index of its trajectory in Used

	Loss, Value []bool    // tokens that train the policy, the critic
	Response    []bool    // tokens that the policy wrote
	Forced      []bool    // of these, the ones that it did not choose
	LogProbs    []float32 // at sampling, 0 for other tokens and rows without
}

// NewBatch makes a batch of all rows with a response of the usable trajectories. Group,
// Index and the row's number within its trajectory identify the rows (see advantage.Batch).
// Rewards are those of the trajectories' turns, which the caller may change before; how
// places them.
//
// Without a usable trajectory the batch is empty.
func NewBatch(ts []*Trajectory, o mask.Options, how reward.Placement) (*Batch, error) {
	b := &Batch{Rows: policy.Rows{Offsets: []int{0}}}
	for i, t := range ts {
		if t == nil {
			return nil, fmt.Errorf("rollout: trajectory %d is nil", i)
		}
		if !t.End.Usable() {
			continue
		}
		for r := range t.Rows {
			if t.Rows[r].Turns() == 0 {
				continue
			}
			if err := b.add(t, r, o, how); err != nil {
				return nil, fmt.Errorf("rollout: group %d, episode %d: %w", t.Group, t.Index, err)
			}
		}
		b.Used = append(b.Used, t)
	}
	return b, nil
}

// add appends row r of a trajectory that is about to become the last of Used.
func (b *Batch) add(t *Trajectory, r int, o mask.Options, how reward.Placement) error {
	row := &t.Rows[r]
	logProbs := row.LogProbs
	if logProbs == nil {
		logProbs = make([]float32, row.Len())
	}
	if len(logProbs) != row.Len() {
		return fmt.Errorf("row %d has %d log-probs for %d tokens", r, len(logProbs), row.Len())
	}
	rewards, err := t.Rewards(nil, r, how)
	if err != nil {
		return err
	}
	identity := advantage.Row{Rewards: rewards, Group: t.Group, Trajectory: t.Index, Turn: r}
	if err := b.Steps.Append(&row.Sequence, o, identity); err != nil {
		return err
	}
	b.Rows.Tokens = append(b.Rows.Tokens, row.Tokens()...)
	b.Rows.Offsets = append(b.Rows.Offsets, len(b.Rows.Tokens))
	b.Rows.Images = append(b.Rows.Images, row.Images)
	b.Of = append(b.Of, len(b.Used))
	b.Loss, b.Value = row.Loss(b.Loss, o), row.Value(b.Value, o)
	b.Response, b.Forced = row.Response(b.Response), row.Span(b.Forced, mask.Forced)
	b.LogProbs = append(b.LogProbs, logProbs...)
	return nil
}
