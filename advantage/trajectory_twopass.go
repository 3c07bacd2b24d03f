package advantage

// TrajectoryTwoPass is [BiLevel], the two passes of the published VAGEN, over
// episodes that may consist of several rows.
//
// The rewards of a turn are first summed onto its last token. Turn level, over
// the last tokens e1 < … < eK of an episode's turns:
//
//	δk = rk + γH·V(ek+1) − V(ek),   Hk = δk + γHλ·H(k+1)
//
// Token level, backwards: the last token of turn k has A = Hk; before it
//
//	δt = γ·V(next) − V(t),   At = δt + γλ·A(next)
//
// Returns are A + V. A turn is a run of tokens under the mask; if the batch
// has TurnEnd, turn ends separate adjacent runs.
//
// Advantages are whitened with [GuardedWhitening] over the mask, copies not
// counted; off the mask advantages and returns are 0. TurnID is published. Mask
// and errors are those of [TrajectoryToken].
//
// Config name: bi_level_gae_published.
type TrajectoryTwoPass struct {
	Gamma     float64 // γ, discount per token within a turn, in [0, 1]
	Lambda    float64 // λ of both levels, in [0, 1]
	TurnGamma float64 // γH, discount per turn, in [0, 1]
	Whiten    bool    // whiten advantages
}

// Estimate implements [Estimator].
func (g TrajectoryTwoPass) Estimate(dst *Result, b *Batch) error {
	return estimate(dst, b, "bi_level_gae_published", g, runTrajectoryTwoPass[float32])
}

func runTrajectoryTwoPass[T number](g TrajectoryTwoPass, c *call[T]) error {
	if err := firstError(unit("gamma", g.Gamma), unit("lambda", g.Lambda), unit("turn gamma", g.TurnGamma), c.needValues()); err != nil {
		return err
	}
	c.mask = c.lossMask()
	e, err := c.stitch()
	if err != nil {
		return err
	}
	c.publishTurnID()
	p := slot[twoPass[T]](c.scratch, mainSlot)
	*p = twoPass[T]{
		c:     c,
		token: recursion{gamma: g.Gamma, decay: g.Gamma * g.Lambda},
		turn:  recursion{gamma: g.TurnGamma, decay: g.TurnGamma * g.Lambda},
	}
	if err := c.scratch.each(p, e.count(), c.tokens()); err != nil {
		return err
	}
	return c.finish(e, g.Whiten)
}

type twoPass[T number] struct {
	c           *call[T]
	token, turn recursion // as they start in every episode
}

func (p *twoPass[T]) do(from, to int) {
	c := p.c
	for k := from; k < to; k++ {
		rows := c.scratch.episodes.rows(k)
		c.numberTurns(rows)
		token, turn, ok := p.token, p.turn, true
		for i := len(rows) - 1; i >= 0; i-- {
			lo := c.offsets[rows[i]]
			for end := c.offsets[rows[i]+1]; end > lo; {
				start, in := c.turnBefore(lo, end)
				if in {
					p.one(start, end-1, &token, &turn)
				} else {
					ok = c.skip(start, end, 0) && ok
				}
				end = start
			}
		}
		c.closeEpisode(k, rows, &token.spread, ok)
	}
}

// one applies the recursions to one turn, from start to its last token.
func (p *twoPass[T]) one(start, last int, token, turn *recursion) {
	c := p.c
	value := float64(c.values[last])
	h := turn.step(sum(c.rewards[start:last+1]), value)
	if token.spread.n == 0 {
		token.spread.shift = h
	}
	token.acc, token.next = h, value
	token.spread.add(h, 1)
	c.adv[last], c.ret[last] = T(h), T(h+value)
	advanceWithoutRewards(token, c.values[start:last], c.adv[start:last], c.ret[start:last])
}
