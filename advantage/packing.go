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
	dst = append(dst, make([]int32, c.tokens())...)
	c.turnID = dst[n:]
	for k := range e.count() {
		c.numberTurns(e.rows(k))
	}
	for row, from := range e.source {
		copy(c.turnID[c.offsets[row]:c.offsets[row+1]], c.turnID[c.offsets[from]:c.offsets[from+1]])
	}
	return dst, nil
}

// stitched joins the rows of each trajectory.
func (b *Batch) stitched() (*call[float32], *episodes, error) {
	if err := b.Check(); err != nil {
		return nil, nil, fmt.Errorf("advantage: %w", err)
	}
	c := &call[float32]{
		offsets: b.Offsets, rewards: b.Rewards, attention: b.Attention, loss: b.Loss, turnEnds: b.TurnEnd,
		group: b.Group, trajectory: b.Trajectory, turn: b.Turn, scratch: new(scratch),
	}
	c.mask = c.lossMask()
	e, err := c.stitch()
	if err != nil {
		return nil, nil, fmt.Errorf("advantage: %w", err)
	}
	return c, e, nil
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

// RowMultiple returns the least common multiple of the parts, such as the number of
// devices and of mini-batches. A number of rows that is a multiple of it can be divided
// equally among them. All parts must be positive.
func RowMultiple(parts ...int) (int, error) {
	m := 1
	for _, p := range parts {
		if p <= 0 || m/gcd(m, p) > math.MaxInt/p {
			return 0, fmt.Errorf("advantage: row multiple of %v: %w (parts must be positive, and their least common multiple must fit an int)", parts, ErrParameter)
		}
		m = m / gcd(m, p) * p
	}
	return m, nil
}

// ExtraRows returns the number of rows to add to reach the next multiple.
func ExtraRows(rows, multiple int) int {
	if multiple <= 0 || rows <= 0 {
		return 0
	}
	return (multiple - rows%multiple) % multiple
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// Interleaved appends the trajectory numbers of rows in which every start state is played
// n times in succession: 0 … n−1, 0 … n−1, and so on.
func Interleaved(dst []int, rows, n int) []int {
	for i := range rows {
		dst = append(dst, i%max(n, 1))
	}
	return dst
}
