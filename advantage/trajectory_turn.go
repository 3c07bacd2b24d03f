package advantage

// TrajectoryTurn is advantage estimation with the turns of an episode as steps,
// however many rows the episode was laid out in.
//
// Turn k has reward rk, the sum over its tokens, and value Vk, the critic's at
// its first token: the state in which the turn was begun.
//
//	δk = rk + γ·V(k+1) − Vk,   V after the last turn = 0
//	Ak = δk + γλ·A(k+1),   Rk = Ak + Vk
//
// All tokens of the turn get Ak. Rk is the return at its first token;
// everywhere else the return is IgnoreReturn, and ValueMask is false. A turn is
// a run of tokens under the mask; where the batch has TurnEnd, turn ends part
// runs that touch.
//
// Advantages are whitened with [GuardedWhitening] over the mask, copies not
// counted, and 0 elsewhere. TurnID is published. Mask and errors are those of
// [TrajectoryToken].
//
// Config name: turn_level_gae.
type TrajectoryTurn struct {
	Gamma  float64 // discount per turn, in [0, 1]
	Lambda float64 // bias (0) against variance (1), in [0, 1]
	Raw    bool    // leave advantages unwhitened
}

// Estimate implements [Estimator].
func (g TrajectoryTurn) Estimate(dst *Result, b *Batch) error {
	return estimate(dst, b, "turn_level_gae", g, runTrajectoryTurn[float32])
}

func runTrajectoryTurn[T number](g TrajectoryTurn, c *call[T]) error {
	if err := firstError(unit("gamma", g.Gamma), unit("lambda", g.Lambda), c.needValues()); err != nil {
		return err
	}
	c.mask = c.lossMask()
	e, err := c.stitch()
	if err != nil {
		return err
	}
	c.publishTurnID()
	c.publishValueMask()
	p := slot[turnPass[T]](c.scratch, mainSlot)
	*p = turnPass[T]{c: c, gamma: g.Gamma, decay: g.Gamma * g.Lambda}
	if err := c.scratch.each(p, e.count(), c.tokens()); err != nil {
		return err
	}
	return c.finish(e, g.Raw)
}

type turnPass[T number] struct {
	c            *call[T]
	gamma, decay float64
}

func (p *turnPass[T]) do(from, to int) {
	for k := from; k < to; k++ {
		rows := p.c.scratch.episodes.rows(k)
		if !p.c.finiteRows(rows) {
			continue
		}
		p.c.numberTurns(rows)
		p.episode(k, rows)
	}
}

func (p *turnPass[T]) episode(k int, rows []int) {
	c := p.c
	var next, acc float64 // V and A of the following turn
	var s spread
	first := true
	for i := len(rows) - 1; i >= 0; i-- {
		lo := c.offsets[rows[i]]
		for end := c.offsets[rows[i]+1]; end > lo; {
			if !c.mask[end-1] {
				end--
				c.adv[end], c.ret[end] = 0, IgnoreReturn
				continue
			}
			start, reward := c.turnBefore(lo, end)
			value := float64(c.values[start])
			delta := reward + float64(p.gamma*next) - value
			acc = delta + float64(p.decay*acc)
			next = value
			if first {
				s.shift, first = acc, false
			}
			for t := start; t < end; t++ {
				c.adv[t], c.ret[t] = T(acc), IgnoreReturn
				s.add(acc)
			}
			c.ret[start], c.valueMask[start] = T(acc+value), true
			end = start
		}
	}
	c.closeEpisode(k, rows, &s)
}

// turnBefore returns where the turn starts that ends before end, and the sum of
// its rewards. It relies on numbered turns.
func (c *call[T]) turnBefore(lo, end int) (start int, reward float64) {
	id := c.turnID[end-1]
	for start = end; start > lo && c.turnID[start-1] == id; start-- {
		reward += float64(c.rewards[start-1])
	}
	return start, reward
}
