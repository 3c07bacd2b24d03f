package advantage

import "fmt"

// groups sorts rows (or episodes) into groups and holds what their members
// share. Groups are numbered by first appearance.
type groups struct {
	number map[int]int
	of     []int     // group of each item
	size   []int     // members of each group
	mean   []float64 // of the members' scores
	m2     []float64 // sum of squared distances to it

	order []int // see ascending
}

// assign resets the groups to items with these ids.
func (g *groups) assign(ids []int) {
	if g.number == nil {
		g.number = make(map[int]int)
	}
	clear(g.number)
	g.of, g.size = resize(g.of, len(ids)), g.size[:0]
	for i, id := range ids {
		k, ok := g.number[id]
		if !ok {
			k = len(g.size)
			g.number[id] = k
			g.size = append(g.size, 0)
		}
		g.of[i] = k
		g.size[k]++
	}
}

// count returns the number of groups.
func (g *groups) count() int { return len(g.size) }

// score computes mean and spread of the groups' scores, in float64 and in item
// order. In float64, equal scores give a spread of 0, or of rounding errors far below any
// epsilon.
func (g *groups) score(scores []float64) {
	g.mean, g.m2 = zeroed(g.mean, g.count()), zeroed(g.m2, g.count())
	for i, s := range scores {
		g.mean[g.of[i]] += s
	}
	for k, n := range g.size {
		g.mean[k] /= float64(n)
	}
	for i, s := range scores {
		d := s - g.mean[g.of[i]]
		g.m2[g.of[i]] += float64(d * d)
	}
}

// scoredGroups sorts the batch's rows into their groups, and returns these and
// the sum of each row's rewards over all its tokens. The caller may overwrite
// the scores. The mask is the loss mask.
func (c *call) scoredGroups() (*groups, []float64, error) {
	if len(c.Group) == 0 && c.Rows() > 0 {
		return nil, nil, fmt.Errorf("group: %w", ErrNoGroup)
	}
	c.mask = c.lossMask()
	g := &c.groups
	g.assign(c.Group)
	c.scores = resize(c.scores, c.Rows())
	for row := range c.scores {
		c.scores[row] = c.rowSum(row)
	}
	g.score(c.scores)
	return g, c.scores, nil
}

// compareRows gives every token under the loss mask what of returns for its row and the row's score.
func (c *call) compareRows(of func(g *groups, row int, score float64) float64) error {
	g, scores, err := c.scoredGroups()
	if err != nil {
		return err
	}
	for row, s := range scores {
		scores[row] = of(g, row, s)
	}
	return c.finishBroadcast(scores)
}

// broadcast sets advantage and return of every token under the mask to its row's advantage.
func (c *call) broadcast(advantages []float64) {
	for row, a := range advantages {
		lo, hi := c.Row(row)
		c.spread(lo, hi, float32(a))
		copy(c.ret[lo:hi], c.adv[lo:hi])
	}
}

// finishBroadcast is broadcast and check.
func (c *call) finishBroadcast(advantages []float64) error {
	c.broadcast(advantages)
	_, err := c.check(nil)
	return err
}
