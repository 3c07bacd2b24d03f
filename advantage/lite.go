package advantage

// Lite is the masked recursion in the form that VAGEN lite uses, from verl: the
// recursion walks over every column, and tokens outside the mask pass it
// through instead of being left out.
//
//	outside the mask: A(t) = A(t+1), V(next) unchanged
//	under the mask:   as Masked
//	Rt = At + V(t) everywhere
//
// Under the mask the numbers are those of [Masked], up to the guard of
// whitening. Outside it, a position holds the advantage of the next model token
// before whitening, and a return that belongs to no state of the policy; the
// loss mask must exclude both.
//
// The mask is Loss, or Attention without a loss mask. Advantages
// are whitened over the mask with [GuardedWhitening].
//
// Config name: lite_gae.
type Lite struct {
	Gamma  float64 // discount per model token, in [0, 1]
	Lambda float64 // bias (0) against variance (1), in [0, 1]
	Whiten bool    // whiten advantages
}

// Estimate implements [Estimator].
func (l Lite) Estimate(dst *Result, b *Batch) error {
	return estimate(dst, b, "lite_gae", l, runLite[float32])
}

func runLite[T number](l Lite, c *call[T]) error {
	if err := firstError(unit("gamma", l.Gamma), unit("lambda", l.Lambda), c.needValues()); err != nil {
		return err
	}
	c.mask = c.lossMask()
	p := slot[litePass[T]](c.scratch, mainSlot)
	*p = litePass[T]{c: c, gamma: l.Gamma, decay: l.Gamma * l.Lambda}
	if err := c.scratch.each(p, c.rows(), c.tokens()); err != nil || !l.Whiten {
		return err
	}
	return c.whiten(GuardedWhitening(), mapKnown)
}

type litePass[T number] struct {
	c            *call[T]
	gamma, decay float64
}

func (p *litePass[T]) do(from, to int) {
	c := p.c
	for row := from; row < to; row++ {
		lo, hi := c.offsets[row], c.offsets[row+1]
		ok := true
		s := recursion{gamma: p.gamma, decay: p.decay}
		s.spread.shift = c.firstDelta(row, c.mask)
		for end := hi; end > lo; {
			start, in := runBefore(c.mask, lo, end)
			r, v, adv, ret := c.rewards[start:end], c.values[start:end], c.adv[start:end], c.ret[start:end]
			if in {
				advance(&s, r, v, adv, ret)
			} else {
				ok = c.skip(start, end, 0) && ok
				fill(adv, T(s.acc))
				scale(ret, v, -s.acc, 1) // fits where the advantage is safe
			}
			end = start
		}
		c.close(row, &s.spread, ok)
	}
}
