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
	return estimate(dst, b, "gae", g.run)
}

func (g GAE) run(c *call) error {
	if err := firstError(unit("gamma", g.Gamma), unit("lambda", g.Lambda), c.needValues()); err != nil {
		return err
	}
	c.mask = c.attentionMask()
	for row := range c.Rows() {
		s := newRecursion(g.Gamma, g.Lambda)
		for lo, t := c.Offsets[row], c.Offsets[row+1]-1; t >= lo; t-- {
			c.token(t, &s)
		}
	}
	return c.whiten(g.Whiten, Whitening{}, c.mask, false)
}
