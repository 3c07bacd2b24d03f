package advantage

import "fmt"

// Masked is generalized advantage estimation over the tokens that the model
// wrote, VAGEN's answer to observations inside a row.
//
// Let p1 < … < pn be the positions of a row with GAE set. The tokens between
// them are observation: part of the state, never an action. The recursion steps
// over them without discount,
//
//	δk = r(pk) + γ·V(pk+1) − V(pk),   V(pn+1) = 0
//	Ak = δk + γλ·A(k+1),   Rk = Ak + V(pk)
//
// so rewards and values elsewhere do not count. Returns are 0 elsewhere.
// Advantages are whitened over GAE; whitening maps the zeros elsewhere to one
// constant, which a loss mask excludes from the loss. A row without GAE token
// stays 0. A batch without GAE mask is an ErrNoMask.
//
// See Schulman et al., arXiv:1506.02438, eq. 16, and VAGEN, arXiv:2510.16907.
// Config name: masked_gae.
type Masked struct {
	Gamma  float64 // discount per model token, in [0, 1]
	Lambda float64 // bias (0) against variance (1), in [0, 1]
	Whiten bool    // whiten advantages
}

// Estimate implements [Estimator].
func (m Masked) Estimate(dst *Result, b *Batch) error {
	return estimate(dst, b, "masked_gae", m.run)
}

func (m Masked) run(c *call) error {
	if err := firstError(unit("gamma", m.Gamma), unit("lambda", m.Lambda), c.needValues()); err != nil {
		return err
	}
	if len(c.GAE) == 0 && c.Tokens() > 0 {
		return fmt.Errorf("gae: %w", ErrNoMask)
	}
	c.mask = c.GAE
	for row := range c.Rows() {
		s := newRecursion(m.Gamma, m.Lambda)
		c.maskedRow(row, &s)
	}
	return c.whiten(m.Whiten, Whitening{}, c.mask, false)
}

// maskedRow applies the recursion to the tokens of a row under the mask.
func (c *call) maskedRow(row int, s *recursion) {
	for lo, t := c.Offsets[row], c.Offsets[row+1]-1; t >= lo; t-- {
		if c.mask[t] {
			c.token(t, s)
		}
	}
}
