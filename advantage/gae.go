package advantage

// GAE is generalized advantage estimation over all tokens of a row,
// including context: the estimator of a plain language-model PPO.
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
	Whiten bool    // whiten advantages
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
	if err := c.scratch.each(p, c.rows(), c.tokens()); err != nil || !g.Whiten {
		return err
	}
	return c.whiten(Whitening{}, mapAll)
}

type gaePass[T number] struct {
	c            *call[T]
	gamma, decay float64
}

func (p *gaePass[T]) do(from, to int) {
	c := p.c
	for row := from; row < to; row++ {
		lo, ok := c.offsets[row], true
		s := recursion{gamma: p.gamma, decay: p.decay}
		s.spread.shift = c.firstDelta(row, c.mask)
		for end := c.offsets[row+1]; end > lo; {
			start, attended := runBefore(c.mask, lo, end)
			before := s.spread
			advance(&s, c.rewards[start:end], c.values[start:end], c.adv[start:end], c.ret[start:end])
			if !attended {
				s.spread = before
				ok = ok && finite(c.adv[start:end]) && finite(c.ret[start:end])
			}
			end = start
		}
		c.close(row, &s.spread, ok)
	}
}
