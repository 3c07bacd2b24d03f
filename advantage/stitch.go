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

// stitch groups the rows by Group and Trajectory and sorts them by Turn.
//
// Rows with the same identity and turn are copies, which trainers append to fill a batch.
// The first is processed, the others get its results. If their masks differ, the error is
// an ErrConflict. Without Trajectory every row is an episode, without Turn all rows are
// turn 0.
func (c *call[T]) stitch() (*episodes, error) {
	e := &c.scratch.episodes
	rows := c.rows()
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
				return nil, fmt.Errorf("trajectory: rows %d and %d are both turn %d of one trajectory, with different masks: %w", last, row, c.ordinal(row), ErrConflict)
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
	return e, nil
}

// compare orders identities.
func (id identity) compare(o identity) int {
	return cmp.Or(cmp.Compare(id.group, o.group), cmp.Compare(id.trajectory, o.trajectory))
}

// ordinal returns the row's place in its trajectory.
func (c *call[T]) ordinal(row int) int {
	if len(c.turn) == 0 {
		return 0
	}
	return c.turn[row]
}

// identity returns the identity of the row's trajectory. Rows without Trajectory are
// distinct, even in the same Group.
func (c *call[T]) identity(row int) identity {
	var id identity
	if len(c.trajectory) == 0 {
		id.trajectory = row
		return id
	}
	id.trajectory = c.trajectory[row]
	if len(c.group) > 0 {
		id.group = c.group[row]
	}
	return id
}

// rowMask returns the row's part of the mask.
func (c *call[T]) rowMask(row int) []bool { return c.mask[c.offsets[row]:c.offsets[row+1]] }

// copyBack sets the results of copies to those of their source rows.
func (c *call[T]) copyBack(e *episodes) {
	if !e.copied {
		return
	}
	for row, from := range e.source {
		if from == row {
			continue
		}
		lo, src, n := c.offsets[row], c.offsets[from], c.offsets[row+1]-c.offsets[row]
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

// closeEpisode is close for an episode.
func (c *call[T]) closeEpisode(k int, rows []int, s *spread, ok bool) {
	c.scratch.parts[k] = s.moments()
	if ok && s.safe() {
		return
	}
	for _, row := range rows {
		c.examine(row, true)
	}
}

// lastOf returns the row and position of an episode's last token under the
// mask, and false when there is none.
func (c *call[T]) lastOf(rows []int) (row, t int, ok bool) {
	for i := len(rows) - 1; i >= 0; i-- {
		if t := lastTrue(c.rowMask(rows[i])); t >= 0 {
			return rows[i], t, true
		}
	}
	return 0, 0, false
}

// numberTurns publishes the turns of an episode: 0, 1, … over its rows, -1 off
// the mask. A turn is a run of tokens under the mask; if the batch has TurnEnd, turn ends
// separate adjacent runs.
func (c *call[T]) numberTurns(rows []int) {
	turn := int32(0)
	for _, row := range rows {
		hi := c.offsets[row+1]
		for t := c.offsets[row]; t < hi; {
			end, in := c.turnFrom(t, hi)
			if in {
				fill(c.turnID[t:end], turn)
				turn++
			} else {
				fill(c.turnID[t:end], -1)
			}
			t = end
		}
	}
}

// turnFrom returns the end of the turn, or of the run of tokens off the mask, that starts
// at t, and whether it is a turn.
func (c *call[T]) turnFrom(t, hi int) (end int, in bool) {
	end, in = runFrom(c.mask, t, hi)
	if in && len(c.turnEnds) > 0 {
		if e := firstTrue(c.turnEnds[t:end]); e >= 0 {
			end = t + e + 1
		}
	}
	return end, in
}

// turnBefore returns the start of the turn, or of the run of tokens off the mask, that
// ends before end, and whether it is a turn.
func (c *call[T]) turnBefore(lo, end int) (start int, in bool) {
	start, in = runBefore(c.mask, lo, end)
	if in && len(c.turnEnds) > 0 {
		start += lastTrue(c.turnEnds[start:end-1]) + 1
	}
	return start, in
}

// finish whitens the advantages of a stitched batch over its distinct tokens
// and fills the copies.
func (c *call[T]) finish(e *episodes, whiten bool) error {
	if whiten {
		if err := c.whiten(GuardedWhitening(), keepZeros); err != nil {
			return err
		}
	}
	c.copyBack(e)
	return nil
}
