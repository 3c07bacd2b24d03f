package advantage

// TrajectoryToken is generalized advantage estimation over all tokens that the
// model wrote in an episode, in one or several rows.
//
// The rows of a trajectory are joined in turn order. Let p1 < … < pn be
// the tokens under the mask of all of them:
//
//	δk = r(pk) + γ·V(pk+1) − V(pk),   V(pn+1) = 0
//	Ak = δk + γλ·A(k+1),   Rk = Ak + V(pk)
//
// Rewards and values off the mask do not count. Advantages are whitened with
// [GuardedWhitening] over the mask, each token once however many copies of its
// row there are; off the mask advantages and returns are 0. TurnID is
// published.
//
// The mask is Loss, or Attention without a loss mask. A row without a
// token under it is skipped; fewer than two tokens in the batch are an
// ErrEmptyMask, and two different rows with one identity an ErrConflict.
//
// Config name: token_level_gae.
type TrajectoryToken struct {
	Gamma  float64 // discount per model token, in [0, 1]
	Lambda float64 // bias (0) against variance (1), in [0, 1]
	Whiten bool    // whiten advantages
}

// Estimate implements [Estimator].
func (g TrajectoryToken) Estimate(dst *Result, b *Batch) error {
	return estimate(dst, b, "token_level_gae", g.run)
}

func (g TrajectoryToken) run(c *call) error {
	return c.tokenLevel(g.Gamma, g.Lambda, g.Whiten, false)
}

// TrajectoryOutcome is [TrajectoryToken] with all of an episode's reward moved
// to the last token that the model wrote in it. It is the default of VAGEN
// next, which rewards outcomes, not steps.
//
// Config name: default_gae.
type TrajectoryOutcome struct {
	Gamma  float64 // discount per model token, in [0, 1]
	Lambda float64 // bias (0) against variance (1), in [0, 1]
	Whiten bool    // whiten advantages
}

// Estimate implements [Estimator].
func (g TrajectoryOutcome) Estimate(dst *Result, b *Batch) error {
	return estimate(dst, b, "default_gae", g.run)
}

func (g TrajectoryOutcome) run(c *call) error {
	return c.tokenLevel(g.Gamma, g.Lambda, g.Whiten, true)
}

func (c *call) tokenLevel(gamma, lambda float64, whiten, outcome bool) error {
	e, err := c.stitchLoss(unit("gamma", gamma), unit("lambda", lambda))
	if err != nil {
		return err
	}
	c.publishTurnID(e)
	for k := range e.count() {
		s, rows := newRecursion(gamma, lambda), e.rows(k)
		if outcome {
			c.outcome(rows, &s)
			continue
		}
		for i := len(rows) - 1; i >= 0; i-- {
			c.maskedRow(rows[i], &s)
		}
	}
	return c.whiten(whiten, GuardedWhitening(), c.mask, true)
}

// outcome applies the recursion to an episode, with the sum of its rewards on its last token.
func (c *call) outcome(rows []int, s *recursion) {
	reward := 0.0
	for _, row := range rows {
		reward += c.maskedSum(row)
	}
	for i := len(rows) - 1; i >= 0; i-- {
		for lo, t := c.Offsets[rows[i]], c.Offsets[rows[i]+1]-1; t >= lo; t-- {
			if c.mask[t] {
				c.step(t, reward, s)
				reward = 0
			}
		}
	}
}
