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
// constant, which a loss mask keeps out of the loss. A row without GAE token
// stays 0. A batch without GAE mask is an ErrNoMask.
//
// See Schulman et al., arXiv:1506.02438, eq. 16, and VAGEN, arXiv:2510.16907.
// Config name: masked_gae.
type Masked struct {
	Gamma  float64 // discount per model token, in [0, 1]
	Lambda float64 // bias (0) against variance (1), in [0, 1]
	Raw    bool    // leave advantages unwhitened
}

// Estimate implements [Estimator].
func (m Masked) Estimate(dst *Result, b *Batch) error {
	return estimate(dst, b, "masked_gae", m, runMasked[float32])
}

func runMasked[T number](m Masked, c *call[T]) error {
	if err := firstError(unit("gamma", m.Gamma), unit("lambda", m.Lambda), c.needValues()); err != nil {
		return err
	}
	if len(c.gae) == 0 && c.tokens() > 0 {
		return fmt.Errorf("gae: %w", ErrNoMask)
	}
	c.mask = c.gae
	p := slot[maskedPass[T]](c.scratch, mainSlot)
	*p = maskedPass[T]{c: c, gamma: m.Gamma, decay: m.Gamma * m.Lambda}
	if err := c.scratch.each(p, c.rows(), c.tokens()); err != nil || m.Raw {
		return err
	}
	return c.whiten(Whitening{}, nil)
}

type maskedPass[T number] struct {
	c            *call[T]
	gamma, decay float64
}

func (p *maskedPass[T]) do(from, to int) {
	for row := from; row < to; row++ {
		if p.c.finiteRow(row, true) {
			p.row(row)
		}
	}
}

func (p *maskedPass[T]) row(row int) {
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
		if !m[t] {
			adv[t], ret[t] = 0, 0
			continue
		}
		value := float64(v[t])
		delta := float64(r[t]) + float64(p.gamma*next) - value
		acc = delta + float64(p.decay*acc)
		next = value
		adv[t], ret[t] = T(acc), T(acc+value)
		s.add(acc)
	}
	c.close(row, &s)
}

// lastTrue returns the last position with the mask set, -1 when there is none.
func lastTrue(mask []bool) int {
	for t := len(mask) - 1; t >= 0; t-- {
		if mask[t] {
			return t
		}
	}
	return -1
}
