package advantage

// GAE is generalized advantage estimation over all tokens of a row, whoever
// wrote them: the estimator of a plain language-model PPO.
//
//	δt = rt + γ·V(t+1) − V(t),   V after the last token = 0
//	At = δt + γλ·A(t+1),   Rt = At + V(t)
//
// Advantages are whitened over Attention, returns are not. Rows that come
// padded are walked through including the padding, as the original does.
// Whitening maps positions outside Attention too. An empty row has no results;
// fewer than two attended tokens in the batch are an ErrEmptyMask.
//
// See Schulman et al., arXiv:1506.02438, eq. 16. Config name: gae.
type GAE struct {
	Gamma  float64 // discount per token, in [0, 1]
	Lambda float64 // bias (0) against variance (1), in [0, 1]
	Raw    bool    // leave advantages unwhitened
}

// Estimate implements [Estimator].
func (g GAE) Estimate(dst *Result, b *Batch) error {
	return estimate(dst, b, "gae", g, runGAE[float32])
}

func runGAE[T number](g GAE, c *call[T]) error {
	if err := firstError(unit("gamma", g.Gamma), unit("lambda", g.Lambda), c.needValues()); err != nil {
		return err
	}
	c.mask = c.attentionMask()
	p := slot[gaePass[T]](c.scratch, mainSlot)
	*p = gaePass[T]{c: c, gamma: g.Gamma, decay: g.Gamma * g.Lambda}
	if err := c.scratch.each(p, c.rows(), c.tokens()); err != nil || g.Raw {
		return err
	}
	return c.whiten(Whitening{}, nil)
}

type gaePass[T number] struct {
	c            *call[T]
	gamma, decay float64
}

func (p *gaePass[T]) do(from, to int) {
	for row := from; row < to; row++ {
		if p.c.finiteRow(row, true) {
			p.row(row)
		}
	}
}

func (p *gaePass[T]) row(row int) {
	c := p.c
	lo, hi := c.offsets[row], c.offsets[row+1]
	n := hi - lo
	r, v, m := c.rewards[lo:hi:hi], c.values[lo:hi:hi][:n], c.mask[lo:hi:hi][:n]
	adv, ret := c.adv[lo:hi:hi][:n], c.ret[lo:hi:hi][:n]
	var s spread
	if n > 0 {
		s.shift = float64(r[n-1]) - float64(v[n-1])
	}
	var next, acc float64 // V and A of the following token
	var reach float64     // sum of squares, unattended tokens included
	for t := n - 1; t >= 0; t-- {
		value := float64(v[t])
		delta := float64(r[t]) + float64(p.gamma*next) - value
		acc = delta + float64(p.decay*acc)
		next = value
		reach += float64(acc * acc)
		adv[t], ret[t] = T(acc), T(acc+value)
		if m[t] {
			s.add(acc)
		}
	}
	c.close(row, &s)
	if !(reach < safe*safe) {
		c.checkResults(row)
	}
}
