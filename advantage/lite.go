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
	return estimate(dst, b, "lite_gae", l.run)
}

func (l Lite) run(c *call) error {
	if err := firstError(unit("gamma", l.Gamma), unit("lambda", l.Lambda), c.needValues()); err != nil {
		return err
	}
	c.mask = c.lossMask()
	for row := range c.Rows() {
		s := newRecursion(l.Gamma, l.Lambda)
		for lo, t := c.Offsets[row], c.Offsets[row+1]-1; t >= lo; t-- {
			if c.mask[t] {
				c.token(t, &s)
			} else {
				c.adv[t], c.ret[t] = float32(s.acc), float32(s.acc+float64(c.Values[t]))
			}
		}
	}
	return c.whiten(l.Whiten, GuardedWhitening(), c.mask, false)
}
