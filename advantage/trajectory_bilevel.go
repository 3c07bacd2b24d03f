package advantage

import "math"

// TrajectoryBiLevel is the bi-level estimation of VAGEN next: a recursion
// over the tokens of an episode that discounts only between turns, mixed with the
// plain one.
//
// Over the tokens p1 < … < pn that the model wrote in an episode,
//
//	δk = r(pk) + gk·V(pk+1) − V(pk),   V(pn+1) = 0
//	Bk = δk + gk·lk·B(k+1)
//
// with gk = γH, lk = λH at the last token of a turn, and gk = 1, lk = λ within
// it. With Ak the same recursion for gk = 1, lk = λ throughout, the advantage is
//
//	(1 − mix)·Ak + mix·Bk
//
// and the return is the advantage plus V. There is no discount per token, so gamma must
// be 1. A turn is a run of tokens under the mask; if the batch has TurnEnd, turn ends
// separate adjacent runs.
//
// Advantages are whitened with [GuardedWhitening] over the mask, copies not
// counted; off the mask advantages and returns are 0. TurnID is published. Mask
// and errors are those of [TrajectoryToken].
//
// Config name: trajectory_bi_level_gae (VAGEN next calls it bi_level_gae, which is
// [BiLevel] here).
type TrajectoryBiLevel struct {
	TurnGamma   float64 // γH, discount from turn to turn, in [0, 1]
	TurnLambda  float64 // λH, in [0, 1]
	TokenLambda float64 // λ within a turn, in [0, 1]
	Mix         float64 // 0 is the plain recursion, 1 the bi-level one
	Whiten      bool    // whiten advantages
}

// Estimate implements [Estimator].
func (g TrajectoryBiLevel) Estimate(dst *Result, b *Batch) error {
	return estimate(dst, b, "trajectory_bi_level_gae", g, runTrajectoryBiLevel[float32])
}

func runTrajectoryBiLevel[T number](g TrajectoryBiLevel, c *call[T]) error {
	if err := firstError(unit("turn gamma", g.TurnGamma), unit("turn lambda", g.TurnLambda),
		unit("token lambda", g.TokenLambda), unit("mix", g.Mix), c.needValues()); err != nil {
		return err
	}
	if g.Mix == 0 {
		return runTokens(c, 1, g.TokenLambda, g.Whiten, false) // the same to the bit
	}
	c.mask = c.lossMask()
	e, err := c.stitch()
	if err != nil {
		return err
	}
	c.publishTurnID()
	p := slot[mixPass[T]](c.scratch, mainSlot)
	*p = mixPass[T]{
		c: c, lambda: g.TokenLambda, mix: g.Mix,
		turnGamma: g.TurnGamma, turnDecay: g.TurnGamma * g.TurnLambda,
	}
	if err := c.scratch.each(p, e.count(), c.tokens()); err != nil {
		return err
	}
	return c.finish(e, g.Whiten)
}

type mixPass[T number] struct {
	c                                 *call[T]
	lambda, mix, turnGamma, turnDecay float64
}

// mixState is the state of the recursions between two turns. Within a turn A and B follow
// the same recursion, and so does their mixture; B − A shrinks by λ per token. So only the
// mixture is computed inside a turn, and A and B are recovered at its first token.
type mixState struct {
	mixed          recursion // of the mixture
	plain, bilevel float64   // A and B of the following token under the mask
}

func (p *mixPass[T]) do(from, to int) {
	c := p.c
	for k := from; k < to; k++ {
		rows := c.scratch.episodes.rows(k)
		c.numberTurns(rows)
		s := mixState{mixed: recursion{gamma: 1, decay: p.lambda}}
		if row, _, some := c.lastOf(rows); some {
			s.mixed.spread.shift = c.firstDelta(row, c.mask)
		}
		ok := true
		for i := len(rows) - 1; i >= 0; i-- {
			lo := c.offsets[rows[i]]
			for end := c.offsets[rows[i]+1]; end > lo; {
				start, in := c.turnBefore(lo, end)
				if in {
					p.turn(start, end-1, &s)
				} else {
					ok = c.skip(start, end, 0) && ok
				}
				end = start
			}
		}
		c.closeEpisode(k, rows, &s.mixed.spread, ok)
	}
}

// turn applies the recursions to one turn, from start to its last token.
func (p *mixPass[T]) turn(start, last int, s *mixState) {
	c, m := p.c, &s.mixed
	reward, value := float64(c.rewards[last]), float64(c.values[last])
	plain := reward + m.next - value + float64(p.lambda*s.plain)
	bilevel := reward + float64(p.turnGamma*m.next) - value + float64(p.turnDecay*s.bilevel)
	m.acc, m.next = float64((1-p.mix)*plain)+float64(p.mix*bilevel), value
	m.spread.add(m.acc, 1)
	c.adv[last], c.ret[last] = T(m.acc), T(m.acc+value)
	advance(m, c.rewards[start:last], c.values[start:last], c.adv[start:last], c.ret[start:last])
	difference := (bilevel - plain) * math.Pow(p.lambda, float64(last-start))
	s.plain, s.bilevel = m.acc-float64(p.mix*difference), m.acc+float64((1-p.mix)*difference)
}
