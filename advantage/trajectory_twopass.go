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
	return estimate(dst, b, "bi_level_gae_published", g.run)
}

func (g TrajectoryTwoPass) run(c *call) error {
	e, err := c.stitchLoss(unit("gamma", g.Gamma), unit("lambda", g.Lambda), unit("turn gamma", g.TurnGamma))
	if err != nil {
		return err
	}
	c.publishTurnID(e)
	for k := range e.count() {
		token := newRecursion(g.Gamma, g.Lambda)
		turn := newRecursion(g.TurnGamma, g.Lambda)
		c.turnsBack(e.rows(k), func(start, end int) {
			c.step(end-1, sum(c.Rewards[start:end]), &turn)
			token.acc, token.next = turn.acc, turn.next
			for t := end - 2; t >= start; t-- {
				c.step(t, 0, &token)
			}
		})
	}
	return c.whiten(g.Whiten, GuardedWhitening(), c.mask, true)
}
