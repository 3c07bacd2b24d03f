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
	if err := c.scratch.each(p, c.rows(), c.tokens()); err != nil || !m.Whiten {
		return err
	}
	return c.whiten(Whitening{}, mapKnown)
}

type maskedPass[T number] struct {
	c            *call[T]
	gamma, decay float64
}

func (p *maskedPass[T]) do(from, to int) {
	c := p.c
	for row := from; row < to; row++ {
		s := recursion{gamma: p.gamma, decay: p.decay}
		s.spread.shift = c.firstDelta(row, c.mask)
		ok := c.advanceRow(row, &s)
		c.close(row, &s.spread, ok)
	}
}

// advanceRow applies the recursion to the tokens of a row under the mask, gives
// the others zeros, and reports whether all of them were finite.
func (c *call[T]) advanceRow(row int, s *recursion) bool {
	lo, ok := c.offsets[row], true
	for end := c.offsets[row+1]; end > lo; {
		start, in := runBefore(c.mask, lo, end)
		if in {
			advance(s, c.rewards[start:end], c.values[start:end], c.adv[start:end], c.ret[start:end])
		} else {
			ok = c.skip(start, end, 0) && ok
		}
		end = start
	}
	return ok
}

// firstDelta returns reward minus value of the row's last token under the mask,
// which is its advantage when nothing comes after it. It is close enough to the
// others to serve as a shift.
func (c *call[T]) firstDelta(row int, mask []bool) float64 {
	lo := c.offsets[row]
	t := lastTrue(mask[lo:c.offsets[row+1]])
	if t < 0 {
		return 0
	}
	return float64(c.rewards[lo+t]) - float64(c.values[lo+t])
}
