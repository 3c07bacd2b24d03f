package advantage

import (
	"cmp"
	"fmt"
	"slices"
)

// episodes groups the rows of a batch by trajectory. Episodes are numbered by identity, so
// that results do not depend on the order of the rows.
type episodes struct {
	of     []int // episode of each row
	order  []int // distinct rows, episode by episode, in turn order
	starts []int // episode k is order[starts[k]:starts[k+1]]
	source []int // row whose results are used for a row: the row itself unless it is a copy
	copied bool  // some row is a copy
}

// identity identifies a trajectory: its number is unique only within its group.
type identity struct{ group, trajectory int }

// count returns the number of episodes.
func (e *episodes) count() int { return len(e.starts) - 1 }

// rows returns the distinct rows of episode k in turn order.
func (e *episodes) rows(k int) []int { return e.order[e.starts[k]:e.starts[k+1]] }

// stitchLoss stitches rows with values under the loss mask, unless one of the settings is invalid.
func (c *call) stitchLoss(settings ...error) (*episodes, error) {
	if err := firstError(firstError(settings...), c.needValues()); err != nil {
		return nil, err
	}
	c.mask = c.lossMask()
	return c.stitch()
}

// stitch groups the rows by Group and Trajectory and sorts them by Turn.
//
// Rows with the same identity and turn are copies, which trainers append to fill a batch.
// The first is processed, the others get its results. If their masks differ, the error is
// an ErrConflict. Without Trajectory every row is an episode, without Turn all rows are
// turn 0.
func (c *call) stitch() (*episodes, error) {
	e := &c.episodes
	rows := c.Rows()
	e.of, e.source, e.order = resize(e.of, rows), resize(e.source, rows), resize(e.order, rows)
	for row := range rows {
		e.order[row] = row
	}
	slices.SortFunc(e.order, func(a, b int) int {
		return cmp.Or(c.identity(a).compare(c.identity(b)), cmp.Compare(c.ordinal(a), c.ordinal(b)), cmp.Compare(a, b))
	})
	e.starts, e.copied = e.starts[:0], false
	kept := e.order[:0]
	for _, row := range e.order {
		e.source[row] = row
		n := len(kept)
		if n == 0 || c.identity(kept[n-1]) != c.identity(row) {
			e.starts = append(e.starts, n)
		} else if last := kept[n-1]; c.ordinal(last) == c.ordinal(row) {
			if !slices.Equal(c.rowMask(last), c.rowMask(row)) {
				return nil, fmt.Errorf("trajectory: rows %d and %d are both turn %d of one trajectory, with different masks: %w",
					last, row, c.ordinal(row), ErrConflict)
			}
			e.source[row] = last
			e.copied = true
			e.of[row] = e.of[last]
			continue
		}
		e.of[row] = len(e.starts) - 1
		kept = append(kept, row)
	}
	e.starts = append(e.starts, len(kept))
	e.order = kept
	if e.copied {
		c.source = e.source
	}
	return e, nil
}

// compare orders identities.
func (id identity) compare(o identity) int {
	return cmp.Or(cmp.Compare(id.group, o.group), cmp.Compare(id.trajectory, o.trajectory))
}

// ordinal returns the row's place in its trajectory.
func (c *call) ordinal(row int) int {
	if len(c.Turn) == 0 {
		return 0
	}
	return c.Turn[row]
}

// identity returns the identity of the row's trajectory. Rows without Trajectory are
// distinct, even in the same Group.
func (c *call) identity(row int) identity {
	var id identity
	if len(c.Trajectory) == 0 {
		id.trajectory = row
		return id
	}
	id.trajectory = c.Trajectory[row]
	if len(c.Group) > 0 {
		id.group = c.Group[row]
	}
	return id
}

// rowMask returns the row's part of the mask.
func (c *call) rowMask(row int) []bool { return c.mask[c.Offsets[row]:c.Offsets[row+1]] }

// copyBack sets the results of copies to those of their source rows.
func (c *call) copyBack() {
	for row, from := range c.source {
		if from == row {
			continue
		}
		lo, src, n := c.Offsets[row], c.Offsets[from], c.Offsets[row+1]-c.Offsets[row]
		copy(c.adv[lo:lo+n], c.adv[src:src+n])
		copy(c.ret[lo:lo+n], c.ret[src:src+n])
		if c.valueMask != nil {
			copy(c.valueMask[lo:lo+n], c.valueMask[src:src+n])
		}
		if c.turnID != nil {
			copy(c.turnID[lo:lo+n], c.turnID[src:src+n])
		}
	}
}

// numberTurns publishes the turns of an episode: 0, 1, … over its rows, -1 off the mask.
func (c *call) numberTurns(rows []int) {
	turn := int32(0)
	for _, row := range rows {
		for t := c.Offsets[row]; t < c.Offsets[row+1]; t++ {
			c.turnID[t] = -1
		}
		c.eachTurn(row, func(start, end int) {
			for t := start; t < end; t++ {
				c.turnID[t] = turn
			}
			turn++
		})
	}
}
