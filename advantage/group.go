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
	g.mean, g.m2 = resize(g.mean, g.count()), resize(g.m2, g.count())
	clear(g.mean)
	clear(g.m2)
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
// the scores.
func (c *call[T]) scoredGroups() (*groups, []float64, error) {
	if len(c.group) == 0 && c.rows() > 0 {
		return nil, nil, fmt.Errorf("group: %w", ErrNoGroup)
	}
	g := &c.scratch.groups
	g.assign(c.group)
	scores, err := c.rowScores()
	if err != nil {
		return nil, nil, err
	}
	g.score(scores)
	return g, scores, nil
}

// rowScores returns the sum of each row's rewards, over all its tokens.
func (c *call[T]) rowScores() ([]float64, error) {
	c.scratch.scores = resize(c.scratch.scores, c.rows())
	p := slot[scorePass[T]](c.scratch, mainSlot)
	p.c = c
	return c.scratch.scores, c.scratch.each(p, c.rows(), c.tokens())
}

type scorePass[T number] struct{ c *call[T] }

func (p *scorePass[T]) do(from, to int) {
	c := p.c
	for row := from; row < to; row++ {
		s := sum(c.rewards[c.offsets[row]:c.offsets[row+1]])
		if s-s != 0 {
			c.examine(row, false)
		}
		c.scratch.scores[row] = s
	}
}

// broadcast sets advantage and return of every token under the mask to its row's
// advantage, and to 0 elsewhere. With whiten set it also records the moments.
func (c *call[T]) broadcast(advantages []float64) error {
	for row, a := range advantages {
		if x := T(a); x-x != 0 {
			return fmt.Errorf("row %d: advantage %v: %w", row, a, ErrNotFinite)
		}
	}
	p := slot[broadcastPass[T]](c.scratch, secondSlot)
	*p = broadcastPass[T]{c: c, advantages: advantages}
	return c.scratch.each(p, c.rows(), c.tokens())
}

type broadcastPass[T number] struct {
	c          *call[T]
	advantages []float64
}

func (p *broadcastPass[T]) do(from, to int) {
	c := p.c
	for row := from; row < to; row++ {
		lo, hi := c.offsets[row], c.offsets[row+1]
		clear(c.adv[lo:hi])
		c.spreadOver(lo, hi, T(p.advantages[row]))
		copy(c.ret[lo:hi], c.adv[lo:hi])
	}
}
