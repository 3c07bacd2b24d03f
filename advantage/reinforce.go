package advantage

// ReinforcePlusPlus uses the discounted sum of the rewards to come, whitened
// over the whole batch, and neither critic nor groups:
//
//	Gt = rt + γ·G(t+1)·m(t+1),   Rt = Gt,   A = whitened G under the mask
//
// A token outside the mask m ends the sum: rewards after it do not count for tokens
// before it. So with a loss mask each turn is credited with its own rewards only, as in
// the original on rows of several turns; without one the whole row counts. Advantages are
// 0 outside the mask, returns are not. Fewer than two tokens under the mask are an
// ErrEmptyMask.
//
// The mask is Loss, or Attention without a loss mask.
//
// See Hu, arXiv:2501.03262. Config name: reinforce_plus_plus.
type ReinforcePlusPlus struct {
	Gamma  float64 // discount per token, in [0, 1]
	Whiten bool    // whiten advantages
}

// Estimate implements [Estimator].
func (r ReinforcePlusPlus) Estimate(dst *Result, b *Batch) error {
	return estimate(dst, b, "reinforce_plus_plus", r, runReinforce[float32])
}

func runReinforce[T number](r ReinforcePlusPlus, c *call[T]) error {
	if err := unit("gamma", r.Gamma); err != nil {
		return err
	}
	c.mask = c.lossMask()
	c.values = nil // not read, so not checked either
	p := slot[reinforcePass[T]](c.scratch, mainSlot)
	*p = reinforcePass[T]{c: c, gamma: r.Gamma}
	if err := c.scratch.each(p, c.rows(), c.tokens()); err != nil || !r.Whiten {
		return err
	}
	return c.whiten(Whitening{}, keepZeros)
}

type reinforcePass[T number] struct {
	c     *call[T]
	gamma float64
}

func (p *reinforcePass[T]) do(from, to int) {
	for row := from; row < to; row++ {
		p.row(row)
	}
}

func (p *reinforcePass[T]) row(row int) {
	c := p.c
	lo, ok := c.offsets[row], true
	s := recursion{decay: p.gamma}
	after := 0.0 // return of the following token, 0 if it is outside the mask
	for end := c.offsets[row+1]; end > lo; {
		start, in := runBefore(c.mask, lo, end)
		r, adv, ret := c.rewards[start:end], c.adv[start:end], c.ret[start:end]
		if in {
			if s.spread.n == 0 {
				s.spread.shift = float64(r[len(r)-1])
			}
			s.acc = 0
			advanceWithoutValues(&s, r, adv, ret)
			after = s.acc
		} else {
			ok = prepare(r, r, adv, ret, 0) && ok
			copy(ret, r)
			last := len(r) - 1
			ret[last] = T(float64(r[last]) + float64(p.gamma*after)) // fits where the spread is safe
			after = 0
		}
		end = start
	}
	c.close(row, &s.spread, ok)
}

// ReinforcePlusPlusBaseline is REINFORCE++ with the group's mean as baseline:
// each row's summed reward minus the mean of its Group, given to all tokens
// under the mask and whitened over them across the batch. A group of one keeps
// its score. Advantages are 0 outside the mask; returns are the same numbers.
// Fewer than two tokens under the mask are an ErrEmptyMask, a batch without
// Group is an ErrNoGroup.
//
// The mask is Loss, or Attention without a loss mask.
//
// See Hu, arXiv:2501.03262. Config name: reinforce_plus_plus_baseline.
type ReinforcePlusPlusBaseline struct {
	Whiten bool // whiten advantages
}

// Estimate implements [Estimator].
func (r ReinforcePlusPlusBaseline) Estimate(dst *Result, b *Batch) error {
	return estimate(dst, b, "reinforce_plus_plus_baseline", r, runReinforceBaseline[float32])
}

func runReinforceBaseline[T number](r ReinforcePlusPlusBaseline, c *call[T]) error {
	g, scores, err := c.scoredGroups()
	if err != nil {
		return err
	}
	for row, s := range scores {
		if k := g.of[row]; g.size[k] > 1 {
			scores[row] = s - g.mean[k]
		}
	}
	c.mask = c.lossMask()
	if r.Whiten {
		// Whitening numbers that are constant per row needs no pass over tokens.
		for row, s := range scores {
			n := count(c.mask[c.offsets[row]:c.offsets[row+1]])
			c.raw.merge(Moments{N: n, Mean: s})
		}
		l, err := GuardedWhitening().line(c.raw)
		if err != nil {
			return err
		}
		for row, s := range scores {
			scores[row] = l.at(s)
		}
	}
	return c.broadcast(scores)
}
