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
	return estimate(dst, b, "token_level_gae", g, runTrajectoryToken[float32])
}

func runTrajectoryToken[T number](g TrajectoryToken, c *call[T]) error {
	return runTokens(c, g.Gamma, g.Lambda, g.Whiten, false)
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
	return estimate(dst, b, "default_gae", g, runTrajectoryOutcome[float32])
}

func runTrajectoryOutcome[T number](g TrajectoryOutcome, c *call[T]) error {
	return runTokens(c, g.Gamma, g.Lambda, g.Whiten, true)
}

func runTokens[T number](c *call[T], gamma, lambda float64, whiten, outcome bool) error {
	if err := firstError(unit("gamma", gamma), unit("lambda", lambda), c.needValues()); err != nil {
		return err
	}
	c.mask = c.lossMask()
	e, err := c.stitch()
	if err != nil {
		return err
	}
	c.publishTurnID()
	p := slot[tokenPass[T]](c.scratch, mainSlot)
	*p = tokenPass[T]{c: c, gamma: gamma, decay: gamma * lambda, outcome: outcome}
	if err := c.scratch.each(p, e.count(), c.tokens()); err != nil {
		return err
	}
	return c.finish(e, whiten)
}

type tokenPass[T number] struct {
	c            *call[T]
	gamma, decay float64
	outcome      bool
}

func (p *tokenPass[T]) do(from, to int) {
	c := p.c
	for k := from; k < to; k++ {
		rows := c.scratch.episodes.rows(k)
		c.numberTurns(rows)
		s, ok := recursion{gamma: p.gamma, decay: p.decay}, true
		if p.outcome {
			ok = p.outcomeRows(rows, &s)
		} else {
			if row, _, some := c.lastOf(rows); some {
				s.spread.shift = c.firstDelta(row, c.mask)
			}
			for i := len(rows) - 1; i >= 0; i-- {
				ok = c.advanceRow(rows[i], &s) && ok
			}
		}
		c.closeEpisode(k, rows, &s.spread, ok)
	}
}

// outcomeRows places the sum of the episode's rewards on its last token.
func (p *tokenPass[T]) outcomeRows(rows []int, s *recursion) bool {
	c, ok, paid := p.c, true, false
	reward := 0.0
	for _, row := range rows {
		// Reading rewards sequentially is faster than reading only those under the mask.
		ok = finite(c.rewards[c.offsets[row]:c.offsets[row+1]]) && ok
		reward += c.maskedSum(row)
	}
	for i := len(rows) - 1; i >= 0; i-- {
		lo := c.offsets[rows[i]]
		for end := c.offsets[rows[i]+1]; end > lo; {
			start, in := runBefore(c.mask, lo, end)
			if in && !paid {
				paid = true
				end--
				value := float64(c.values[end])
				a := s.step(reward, value)
				s.spread.shift = a
				s.spread.add(a, 1)
				c.adv[end], c.ret[end] = T(a), T(a+value)
			}
			if in {
				advanceWithoutRewards(s, c.values[start:end], c.adv[start:end], c.ret[start:end])
			} else {
				ok = c.skip(start, end, 0) && ok
			}
			end = start
		}
	}
	return ok
}

// maskedSum returns the sum of the row's rewards under the mask, in order.
func (c *call[T]) maskedSum(row int) float64 {
	total, hi := 0.0, c.offsets[row+1]
	for t := c.offsets[row]; t < hi; {
		end, in := runFrom(c.mask, t, hi)
		if in {
			total += sum(c.rewards[t:end])
		}
		t = end
	}
	return total
}
