package advantage

// Lite is the masked recursion in the form that VAGEN-Lite takes from verl: the
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
// loss mask has to keep both out.
//
// The mask is Loss, and Attention where no loss mask is in force. Advantages
// are whitened over the mask with [GuardedWhitening].
//
// Config name: lite_gae.
type Lite struct {
	Gamma  float64 // discount per model token, in [0, 1]
	Lambda float64 // bias (0) against variance (1), in [0, 1]
	Raw    bool    // leave advantages unwhitened
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
	if err := c.scratch.each(p, c.rows(), c.tokens()); err != nil || l.Raw {
		return err
	}
	return c.whiten(GuardedWhitening, nil)
}

type litePass[T number] struct {
	c            *call[T]
	gamma, decay float64
}

func (p *litePass[T]) do(from, to int) {
	for row := from; row < to; row++ {
		if p.c.finiteRow(row, true) {
			p.row(row)
		}
	}
}

func (p *litePass[T]) row(row int) {
	c := p.c
	lo, hi := c.offsets[row], c.offsets[row+1]
	n := hi - lo
	r, v, m := c.rewards[lo:hi:hi], c.values[lo:hi:hi][:n], c.mask[lo:hi:hi][:n]
	adv, ret := c.adv[lo:hi:hi][:n], c.ret[lo:hi:hi][:n]
	var s spread
	if last := lastTrue(m); last >= 0 {
		s.shift = float64(r[last]) - float64(v[last])
	}
	var next, acc float64 // V and A of the following model token
	for t := n - 1; t >= 0; t-- {
		value := float64(v[t])
		if m[t] {
			delta := float64(r[t]) + float64(p.gamma*next) - value
			acc = delta + float64(p.decay*acc)
			next = value
			s.add(acc)
		}
		adv[t], ret[t] = T(acc), T(acc+value)
	}
	c.close(row, &s)
}
