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
// The mask is Loss, and Attention where no loss mask is in force. Advantages
// are whitened over the turn ends, one vote per turn, and the same map is
// applied everywhere. Fewer than two turn ends in the batch are an
// ErrEmptyMask. A row without turn end stays 0.
//
// See VAGEN, arXiv:2510.16907 (its Turn-PPO baseline). Config name:
// turn_wise_gae.
type TurnWise struct {
	TurnGamma float64 // γH, discount per turn, in [0, 1]
	Lambda    float64 // bias (0) against variance (1), in [0, 1]
	Raw       bool    // leave advantages unwhitened
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
	if err := c.scratch.each(p, c.rows(), c.tokens()); err != nil || w.Raw {
		return err
	}
	return c.whiten(Whitening{}, nil)
}

type turnWisePass[T number] struct {
	c            *call[T]
	gamma, decay float64
}

func (p *turnWisePass[T]) do(from, to int) {
	for row := from; row < to; row++ {
		if p.c.finiteRow(row, true) {
			p.row(row)
		}
	}
}

func (p *turnWisePass[T]) row(row int) {
	c := p.c
	lo, hi := c.offsets[row], c.offsets[row+1]
	n := hi - lo
	r, v, m, e := c.rewards[lo:hi:hi], c.values[lo:hi:hi][:n], c.mask[lo:hi:hi][:n], c.turnEnds[lo:hi:hi][:n]
	adv, ret := c.adv[lo:hi:hi][:n], c.ret[lo:hi:hi][:n]
	var s spread
	if last := lastTrue(e); last >= 0 {
		s.shift = float64(r[last]) - float64(v[last])
	}
	var next, acc float64 // V and H of the following turn
	var turn T            // acc as stored
	for t := n - 1; t >= 0; t-- {
		ret[t] = 0
		if e[t] {
			value := float64(v[t])
			delta := float64(r[t]) + float64(p.gamma*next) - value
			acc = delta + float64(p.decay*acc)
			next, turn = value, T(acc)
			ret[t] = T(acc + value)
			s.add(acc)
		}
		if m[t] {
			adv[t] = turn
		} else {
			adv[t] = 0
		}
	}
	c.close(row, &s)
}
