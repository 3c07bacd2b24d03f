package advantage

// TurnWise is advantage estimation with turns as steps: all tokens of a turn
// share one advantage.
//
// Over the positions e1 < … < eK of a row with TurnEnd set,
//
//	δk = r(ek) + γH·V(ek+1) − V(ek),   V(eK+1) = 0
//	Hk = δk + γHλ·H(k+1)
//
// and every token under the mask gets the H of the next turn end at or after
// it; tokens after the last turn end get 0. Returns are H + V at the turn ends
// and 0 elsewhere, so the critic has to be trained on turn ends.
//
// The mask is Loss, or Attention without a loss mask. Advantages
// are whitened over the turn ends, one per turn, and the same map is
// applied everywhere. Fewer than two turn ends in the batch are an
// ErrEmptyMask. A row without turn end stays 0.
//
// See VAGEN, arXiv:2510.16907 (its Turn-PPO baseline). Config name:
// turn_wise_gae.
type TurnWise struct {
	TurnGamma float64 // γH, discount per turn, in [0, 1]
	Lambda    float64 // bias (0) against variance (1), in [0, 1]
	Whiten    bool    // whiten advantages
}

// Estimate implements [Estimator].
func (w TurnWise) Estimate(dst *Result, b *Batch) error {
	return estimate(dst, b, "turn_wise_gae", w, runTurnWise[float32])
}

func runTurnWise[T number](w TurnWise, c *call[T]) error {
	if err := firstError(unit("turn gamma", w.TurnGamma), unit("lambda", w.Lambda), c.needValues(), c.needTurnEnds()); err != nil {
		return err
	}
	c.mask = c.lossMask()
	p := slot[turnWisePass[T]](c.scratch, mainSlot)
	*p = turnWisePass[T]{c: c, gamma: w.TurnGamma, decay: w.TurnGamma * w.Lambda}
	if err := c.scratch.each(p, c.rows(), c.tokens()); err != nil || !w.Whiten {
		return err
	}
	return c.whiten(Whitening{}, mapKnown)
}

type turnWisePass[T number] struct {
	c            *call[T]
	gamma, decay float64
}

func (p *turnWisePass[T]) do(from, to int) {
	c := p.c
	for row := from; row < to; row++ {
		lo, hi := c.offsets[row], c.offsets[row+1]
		ok := c.open(row, 0)
		s := recursion{gamma: p.gamma, decay: p.decay}
		s.spread.shift = c.firstDelta(row, c.turnEnds)
		for end := hi; ; {
			// The tokens after the last turn end before end belong to the
			// turn that was stepped over last.
			e := lo + lastTrue(c.turnEnds[lo:end]) // lo − 1 if there is none
			c.spreadOver(e+1, min(end+1, hi), T(s.acc))
			if e < lo {
				break
			}
			value := float64(c.values[e])
			h := s.step(float64(c.rewards[e]), value)
			s.spread.add(h, 1)
			c.ret[e] = T(h + value)
			end = e
		}
		c.close(row, &s.spread, ok)
	}
}

// spreadOver gives the tokens under the mask the advantage.
func (c *call[T]) spreadOver(from, to int, a T) {
	for t := from; t < to; {
		end, in := runFrom(c.mask, t, to)
		if in {
			fill(c.adv[t:end], a)
		}
		t = end
	}
}
