package advantage

// TrajectoryTurn is advantage estimation with the turns of an episode as steps,
// in one or several rows.
//
// Turn k has reward rk, the sum over its tokens, and value Vk, the critic's at
// its first token: the state at the start of the turn.
//
//	δk = rk + γ·V(k+1) − Vk,   V after the last turn = 0
//	Ak = δk + γλ·A(k+1),   Rk = Ak + Vk
//
// All tokens of the turn get Ak. Rk is the return at its first token;
// everywhere else the return is IgnoreReturn, and ValueMask is false. A turn is
// a run of tokens under the mask; if the batch has TurnEnd, turn ends separate
// adjacent runs.
//
// Advantages are whitened with [GuardedWhitening] over the mask, copies not
// counted, and 0 elsewhere. TurnID is published. Mask and errors are those of
// [TrajectoryToken].
//
// Config name: turn_level_gae.
type TrajectoryTurn struct {
	Gamma  float64 // discount per turn, in [0, 1]
	Lambda float64 // bias (0) against variance (1), in [0, 1]
	Whiten bool    // whiten advantages
}

// Estimate implements [Estimator].
func (g TrajectoryTurn) Estimate(dst *Result, b *Batch) error {
	return estimate(dst, b, "turn_level_gae", g.run)
}

func (g TrajectoryTurn) run(c *call) error {
	e, err := c.stitchLoss(unit("gamma", g.Gamma), unit("lambda", g.Lambda))
	if err != nil {
		return err
	}
	c.publishTurnID(e)
	c.publishValueMask()
	for k := range e.count() {
		s := newRecursion(g.Gamma, g.Lambda)
		c.turnsBack(e.rows(k), func(start, end int) {
			value := float64(c.Values[start])
			a := s.step(sum(c.Rewards[start:end]), value)
			c.spread(start, end, float32(a))
			c.ret[start], c.valueMask[start] = float32(a+value), true
		})
	}
	return c.whiten(g.Whiten, GuardedWhitening(), c.mask, true)
}
