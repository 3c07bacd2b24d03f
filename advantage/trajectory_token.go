package advantage

// TrajectoryToken is generalized advantage estimation over all tokens that the
// model wrote in an episode, however many rows the episode was laid out in.
//
// The rows of a trajectory are put together in turn order. Let p1 < … < pn be
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
// The mask is Loss, and Attention where no loss mask is in force. A row without
// token under it is passed over; fewer than two tokens in the batch are an
// ErrEmptyMask, and two different rows with one identity an ErrConflict.
//
// Config name: token_level_gae.
type TrajectoryToken struct {
	Gamma  float64 // discount per model token, in [0, 1]
	Lambda float64 // bias (0) against variance (1), in [0, 1]
	Raw    bool    // leave advantages unwhitened
}

// Estimate implements [Estimator].
func (g TrajectoryToken) Estimate(dst *Result, b *Batch) error {
	return estimate(dst, b, "token_level_gae", g, runTrajectoryToken[float32])
}

func runTrajectoryToken[T number](g TrajectoryToken, c *call[T]) error {
	return runTokens(c, g.Gamma, g.Lambda, g.Raw, false)
}

// TrajectoryOutcome is [TrajectoryToken] with all of an episode's reward moved
// to the last token that the model wrote in it. It is the default of the newest
// VAGEN, which prices outcomes, not steps.
//
// Config name: default_gae.
type TrajectoryOutcome struct {
	Gamma  float64 // discount per model token, in [0, 1]
	Lambda float64 // bias (0) against variance (1), in [0, 1]
	Raw    bool    // leave advantages unwhitened
}

// Estimate implements [Estimator].
func (g TrajectoryOutcome) Estimate(dst *Result, b *Batch) error {
	return estimate(dst, b, "default_gae", g, runTrajectoryOutcome[float32])
}

func runTrajectoryOutcome[T number](g TrajectoryOutcome, c *call[T]) error {
	return runTokens(c, g.Gamma, g.Lambda, g.Raw, true)
}

func runTokens[T number](c *call[T], gamma, lambda float64, raw, outcome bool) error {
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
	return c.finish(e, raw)
}

type tokenPass[T number] struct {
	c            *call[T]
	gamma, decay float64
	outcome      bool
}

func (p *tokenPass[T]) do(from, to int) {
	for k := from; k < to; k++ {
		rows := p.c.scratch.episodes.rows(k)
		if !p.c.finiteRows(rows) {
			continue
		}
		p.episode(k, rows)
		p.c.numberTurns(rows)
	}
}

// tokenState is what the recursion hands from a row to the one before it.
type tokenState struct {
	next, acc float64 // V and A of the following token under the mask
	reward    float64 // to pay at the next token under the mask
	spread    spread
}

func (p *tokenPass[T]) episode(k int, rows []int) {
	c := p.c
	var s tokenState
	if p.outcome {
		for _, row := range rows {
			s.reward += c.maskedSum(row)
		}
	}
	if row, t, ok := c.lastOf(rows); ok {
		at := c.offsets[row] + t
		s.spread.shift = s.reward - float64(c.values[at])
		if !p.outcome {
			s.spread.shift += float64(c.rewards[at])
		}
	}
	for i := len(rows) - 1; i >= 0; i-- {
		p.row(rows[i], &s)
	}
	c.closeEpisode(k, rows, &s.spread)
}

func (p *tokenPass[T]) row(row int, s *tokenState) {
	c := p.c
	lo, hi := c.offsets[row], c.offsets[row+1]
	n := hi - lo
	r, v, m := c.rewards[lo:hi:hi], c.values[lo:hi:hi][:n], c.mask[lo:hi:hi][:n]
	adv, ret := c.adv[lo:hi:hi][:n], c.ret[lo:hi:hi][:n]
	next, acc, sp := s.next, s.acc, s.spread
	for t := n - 1; t >= 0; t-- {
		if !m[t] {
			adv[t], ret[t] = 0, 0
			continue
		}
		reward := s.reward
		s.reward = 0
		if !p.outcome {
			reward = float64(r[t])
		}
		value := float64(v[t])
		delta := reward + float64(p.gamma*next) - value
		acc = delta + float64(p.decay*acc)
		next = value
		adv[t], ret[t] = T(acc), T(acc+value)
		sp.add(acc)
	}
	s.next, s.acc, s.spread = next, acc, sp
}

// maskedSum returns the sum of the row's rewards under the mask, in order.
func (c *call[T]) maskedSum(row int) float64 {
	total := 0.0
	r := c.rewards[c.offsets[row]:c.offsets[row+1]]
	for t, in := range c.rowMask(row) {
		if in {
			total += float64(r[t])
		}
	}
	return total
}
