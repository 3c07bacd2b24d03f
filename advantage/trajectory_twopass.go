package advantage

// TrajectoryTwoPass is [BiLevel], the two passes of the published VAGEN, over
// episodes that may be laid out in several rows.
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
// Returns are A + V. A turn is a run of tokens under the mask; where the batch
// has TurnEnd, turn ends part runs that touch.
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
	Raw       bool    // leave advantages unwhitened
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
		gamma: g.Gamma, decay: g.Gamma * g.Lambda,
		turnGamma: g.TurnGamma, turnDecay: g.TurnGamma * g.Lambda,
	}
	if err := c.scratch.each(p, e.count(), c.tokens()); err != nil {
		return err
	}
	return c.finish(e, g.Raw)
}

type twoPass[T number] struct {
	c                                  *call[T]
	gamma, decay, turnGamma, turnDecay float64
}

func (p *twoPass[T]) do(from, to int) {
	for k := from; k < to; k++ {
		rows := p.c.scratch.episodes.rows(k)
		if !p.c.finiteRows(rows) {
			continue
		}
		p.c.numberTurns(rows)
		p.episode(k, rows)
	}
}

func (p *twoPass[T]) episode(k int, rows []int) {
	c := p.c
	var turnNext, turnAcc float64 // V and H of the following turn
	var s spread
	first := true
	for i := len(rows) - 1; i >= 0; i-- {
		lo := c.offsets[rows[i]]
		for end := c.offsets[rows[i]+1]; end > lo; {
			if !c.mask[end-1] {
				end--
				c.adv[end], c.ret[end] = 0, 0
				continue
			}
			start, reward := c.turnBefore(lo, end)
			value := float64(c.values[end-1])
			delta := reward + float64(p.turnGamma*turnNext) - value
			turnAcc = delta + float64(p.turnDecay*turnAcc)
			turnNext = value
			if first {
				s.shift, first = turnAcc, false
			}
			p.turn(start, end, turnAcc, &s)
			end = start
		}
	}
	c.closeEpisode(k, rows, &s)
}

// turn runs the token level over one turn whose last token has advantage acc.
func (p *twoPass[T]) turn(start, end int, acc float64, s *spread) {
	c := p.c
	next := 0.0
	for t := end - 1; t >= start; t-- {
		value := float64(c.values[t])
		if t < end-1 {
			delta := float64(p.gamma*next) - value
			acc = delta + float64(p.decay*acc)
		}
		next = value
		c.adv[t], c.ret[t] = T(acc), T(acc+value)
		s.add(acc)
	}
}
