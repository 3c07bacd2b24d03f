package advantage

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
	TurnGamma   float64 `needs:"Mix"` // γH, discount from turn to turn, in [0, 1]
	TurnLambda  float64 `needs:"Mix"` // λH, in [0, 1]
	TokenLambda float64 // λ within a turn, in [0, 1]
	Mix         float64 // 0 is the plain recursion, 1 the bi-level one
	Whiten      bool    // whiten advantages
}

// Estimate implements [Estimator].
func (g TrajectoryBiLevel) Estimate(dst *Result, b *Batch) error {
	return estimate(dst, b, "trajectory_bi_level_gae", g.run)
}

func (g TrajectoryBiLevel) run(c *call) error {
	e, err := c.stitchLoss(unit("turn gamma", g.TurnGamma), unit("turn lambda", g.TurnLambda),
		unit("token lambda", g.TokenLambda), unit("mix", g.Mix))
	if err != nil {
		return err
	}
	c.publishTurnID(e)
	for k := range e.count() {
		plain := newRecursion(1, g.TokenLambda)
		var bilevel recursion
		c.turnsBack(e.rows(k), func(start, end int) {
			bilevel.gamma, bilevel.decay = g.TurnGamma, g.TurnGamma*g.TurnLambda
			for t := end - 1; t >= start; t-- {
				g.mixToken(c, t, &plain, &bilevel)
				bilevel.gamma, bilevel.decay = 1, g.TokenLambda
			}
		})
	}
	return c.whiten(g.Whiten, GuardedWhitening(), c.mask, true)
}

// mixToken moves both recursions over a token and stores their mixture.
func (g TrajectoryBiLevel) mixToken(c *call, t int, plain, bilevel *recursion) {
	reward, value := float64(c.Rewards[t]), float64(c.Values[t])
	a := float64((1-g.Mix)*plain.step(reward, value)) + float64(g.Mix*bilevel.step(reward, value))
	c.adv[t], c.ret[t] = float32(a), float32(a+value)
}
