package advantage

import (
	"fmt"
	"math"
)

// Episodes returns the rows of each trajectory in turn order, trajectories in
// the order of Group and Trajectory. Copies of a row, which trainers append to fill a
// batch, are left out: rows with the same Group, Trajectory, Turn and mask.
func (b *Batch) Episodes() ([][]int, error) {
	_, e, err := b.stitched()
	if err != nil {
		return nil, err
	}
	all := make([][]int, 0, e.count())
	for k := range e.count() {
		all = append(all, append([]int(nil), e.rows(k)...))
	}
	return all, nil
}

// TurnIDs appends the turn of every token within its trajectory, -1 off the
// mask, like the estimators with Spec.TurnIDs. A turn is a run of tokens under the mask
// (Loss, or Attention without a loss mask); if the batch has TurnEnd, turn ends separate
// adjacent runs.
func (b *Batch) TurnIDs(dst []int32) ([]int32, error) {
	c, e, err := b.stitched()
	if err != nil {
		return dst, err
	}
	n := len(dst)
	dst = append(dst, make([]int32, c.Tokens())...)
	c.turnID = dst[n:]
	for k := range e.count() {
		c.numberTurns(e.rows(k))
	}
	for row, from := range e.source {
		copy(c.turnID[c.Offsets[row]:c.Offsets[row+1]], c.turnID[c.Offsets[from]:c.Offsets[from+1]])
	}
	return dst, nil
}

// stitched joins the rows of each trajectory.
func (b *Batch) stitched() (*call, *episodes, error) {
	if err := b.Check(); err != nil {
		return nil, nil, fmt.Errorf("advantage: %w", err)
	}
	c := callOf(b, new(memory))
	c.mask = c.lossMask()
	e, err := c.stitch()
	if err != nil {
		return nil, nil, fmt.Errorf("advantage: %w", err)
	}
	return &c, e, nil
}

// MaskFromReturns appends the value mask that returns imply: false where they
// are IgnoreReturn.
func MaskFromReturns(dst []bool, returns []float32) []bool {
	for _, r := range returns {
		dst = append(dst, math.Abs(float64(r)-IgnoreReturn) > ignoreTolerance)
	}
	return dst
}

// ignoreTolerance is the largest difference from IgnoreReturn that counts as equal.
const ignoreTolerance = 1e-6
