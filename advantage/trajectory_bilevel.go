package advantage

// TrajectoryBiLevel is the newest bi-level estimation of VAGEN: one recursion
// over the tokens of an episode whose clock ticks slower inside a turn than
// between turns, mixed with the plain one.
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
// and the return that plus V. There is no discount per token: a run with
// another gamma than 1 contradicts this estimator. A turn is a run of tokens
// under the mask; where the batch has TurnEnd, turn ends part runs that touch.
//
// Advantages are whitened with [GuardedWhitening] over the mask, copies not
// counted; off the mask advantages and returns are 0. TurnID is published. Mask
// and errors are those of [TrajectoryToken].
//
// Config name: trajectory_bi_level_gae (the name bi_level_gae of the newest
// VAGEN belongs to [BiLevel] here).
type TrajectoryBiLevel struct {
	TurnGamma   float64 // γH, discount from turn to turn, in [0, 1]
	TurnLambda  float64 // λH, in [0, 1]
	TokenLambda float64 // λ within a turn, in [0, 1]
	Mix         float64 // 0 is the plain recursion, 1 the bi-level one
	Raw         bool    // leave advantages unwhitened
}

// DefaultTrajectoryBiLevel returns the published numbers.
func DefaultTrajectoryBiLevel() TrajectoryBiLevel {
	return TrajectoryBiLevel{TurnGamma: 0.95, TurnLambda: 0.95, TokenLambda: 1, Mix: 0.75}
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
	c.mask = c.lossMask()
	e, err := c.stitch()
	if err != nil {
		return err
	}
	c.publishTurnID()
	p := slot[mixPass[T]](c.scratch, mainSlot)
	*p = mixPass[T]{c: c, lambda: g.TokenLambda, turnGamma: g.TurnGamma, turnDecay: g.TurnGamma * g.TurnLambda, mix: g.Mix}
	if err := c.scratch.each(p, e.count(), c.tokens()); err != nil {
		return err
	}
	return c.finish(e, g.Raw)
}

type mixPass[T number] struct {
	c                                 *call[T]
	lambda, turnGamma, turnDecay, mix float64
}

func (p *mixPass[T]) do(from, to int) {
	for k := from; k < to; k++ {
		rows := p.c.scratch.episodes.rows(k)
		if !p.c.finiteRows(rows) {
			continue
		}
		p.c.numberTurns(rows)
		p.episode(k, rows)
	}
}

func (p *mixPass[T]) episode(k int, rows []int) {
	c := p.c
	var next, plain, two float64 // V, A and B of the following token under the mask
	var s spread
	if row, t, ok := c.lastOf(rows); ok {
		at := c.offsets[row] + t
		s.shift = float64(c.rewards[at]) - float64(c.values[at])
	}
	turn := int32(-1) // of the following token under the mask
	for i := len(rows) - 1; i >= 0; i-- {
		lo, hi := c.offsets[rows[i]], c.offsets[rows[i]+1]
		for t := hi - 1; t >= lo; t-- {
			if !c.mask[t] {
				c.adv[t], c.ret[t] = 0, 0
				continue
			}
			value := float64(c.values[t])
			delta := float64(c.rewards[t]) - value
			plain = delta + next + float64(p.lambda*plain)
			if c.turnID[t] != turn {
				two = delta + float64(p.turnGamma*next) + float64(p.turnDecay*two)
			} else {
				two = delta + next + float64(p.lambda*two)
			}
			next, turn = value, c.turnID[t]
			acc := float64((1-p.mix)*plain) + float64(p.mix*two)
			c.adv[t], c.ret[t] = T(acc), T(acc+value)
			s.add(acc)
		}
	}
	c.closeEpisode(k, rows, &s)
}
