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
	return estimate(dst, b, "turn_level_gae", g, runTrajectoryTurn[float32])
}

func runTrajectoryTurn[T number](g TrajectoryTurn, c *call[T]) error {
	if err := firstError(unit("gamma", g.Gamma), unit("lambda", g.Lambda), c.needValues()); err != nil {
		return err
	}
	c.mask = c.lossMask()
	e, err := c.stitch()
	if err != nil {
		return err
	}
	c.publishTurnID()
	c.publishValueMask()
	p := slot[turnPass[T]](c.scratch, mainSlot)
	*p = turnPass[T]{c: c, gamma: g.Gamma, decay: g.Gamma * g.Lambda}
	if err := c.scratch.each(p, e.count(), c.tokens()); err != nil {
		return err
	}
	return c.finish(e, g.Whiten)
}

type turnPass[T number] struct {
	c            *call[T]
	gamma, decay float64
}

func (p *turnPass[T]) do(from, to int) {
	c := p.c
	for k := from; k < to; k++ {
		rows := c.scratch.episodes.rows(k)
		c.numberTurns(rows)
		s, ok := recursion{gamma: p.gamma, decay: p.decay}, true
		for i := len(rows) - 1; i >= 0; i-- {
			ok = p.row(rows[i], &s) && ok
		}
		c.closeEpisode(k, rows, &s.spread, ok)
	}
}

func (p *turnPass[T]) row(row int, s *recursion) bool {
	c := p.c
	lo, hi := c.offsets[row], c.offsets[row+1]
	ok := c.open(row, IgnoreReturn)
	clear(c.valueMask[lo:hi])
	for end := hi; end > lo; {
		start, in := c.turnBefore(lo, end)
		if !in {
			end = start
			continue
		}
		value := float64(c.values[start])
		a := s.step(sum(c.rewards[start:end]), value)
		if s.spread.n == 0 {
			s.spread.shift = a
		}
		s.spread.add(a, end-start)
		fill(c.adv[start:end], T(a))
		c.ret[start], c.valueMask[start] = T(a+value), true
		end = start
	}
	return ok
}
