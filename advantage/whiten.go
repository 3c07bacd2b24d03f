package advantage

import (
	"fmt"
	"math"

	"vagen/internal/floats"
)

// Whitening shifts and scales numbers to mean 0 and variance 1 over a mask:
//
//	y = (x − mean) / √(var + 1e-8),   var = Σ (x − mean)² / (n − 1)
//
// The zero value is what the original PPO code of VAGEN does.
type Whitening struct {
	// KeepMean adds the mean back after scaling.
	KeepMean bool
	// Guard is added to n in the mean and the mean square, as later versions of that
	// code do with 1e-8. It makes both slightly smaller.
	Guard float64
}

// GuardedWhitening returns the variant with 1e-8 added to the count.
func GuardedWhitening() Whitening { return Whitening{Guard: 1e-8} }

// whitenEpsilon keeps constant inputs finite: they become 0.
const whitenEpsilon = 1e-8

// Apply whitens x over the mask into dst, which may be x itself. A nil mask
// covers everything. Positions outside the mask are shifted and scaled as well:
// a 0 there becomes −mean/√var.
//
// The moments are those of x under the mask. Fewer than two numbers under it
// are an ErrEmptyMask, differing lengths an ErrLength, and a number that is not
// finite, under the mask or not, an ErrNotFinite.
func (w Whitening) Apply(dst, x []float32, mask []bool) (Moments, error) {
	if len(dst) != len(x) || mask != nil && len(mask) != len(x) {
		return Moments{}, fmt.Errorf("advantage: whiten: %d numbers, %d in mask, %d in dst: %w", len(x), len(mask), len(dst),
			ErrLength)
	}
	if at := notFinite(x); at >= 0 {
		return Moments{}, fmt.Errorf("advantage: whiten: position %d: %v: %w", at, x[at], ErrNotFinite)
	}
	m := momentsOf(x, mask)
	s, err := w.line(m)
	if err != nil {
		return m, fmt.Errorf("advantage: whiten: %w", err)
	}
	for t, v := range x {
		dst[t] = float32(s.at(float64(v)))
	}
	if notFinite(dst) >= 0 {
		// Under the mask nothing is further out than √n deviations.
		return m, fmt.Errorf("advantage: whiten: a position outside the mask: its distance to the mask's mean %v is too large: %w", m.Mean, ErrNotFinite)
	}
	return m, nil
}

// line returns the straight line that whitens numbers with these moments.
func (w Whitening) line(m Moments) (line, error) {
	if m.N < 2 {
		return line{}, fmt.Errorf("%d of them: %w", m.N, ErrEmptyMask)
	}
	if w.Guard < 0 || !floats.Finite(w.Guard) {
		return line{}, fmt.Errorf("guard: %v: %w (must not be negative)", w.Guard, ErrParameter)
	}
	m = w.moments(m)
	l := line{shift: m.Mean, scale: 1 / math.Sqrt(m.Variance()+whitenEpsilon)}
	if w.KeepMean {
		l.add = m.Mean
	}
	return l, nil
}

// moments returns the moments as whitening sees them, with Guard added to the
// count wherever something is divided by it.
func (w Whitening) moments(m Moments) Moments {
	if m.N == 0 {
		return m
	}
	n := float64(m.N)
	shrink := n / (n + w.Guard)
	off := m.Mean * w.Guard / (n + w.Guard)
	return Moments{N: m.N, Mean: m.Mean * shrink, M2: (m.M2 + n*off*off) * shrink}
}

// line is y = (x − shift)·scale + add.
type line struct{ shift, scale, add float64 }

func (l line) at(x float64) float64 { return float64((x-l.shift)*l.scale) + l.add }

// whiten checks the numbers and, if the estimator is asked to, replaces the raw advantages by
// those whitened over a mask, copies of rows not counted. Positions outside the mask are
// mapped as well, but for keepZeros, where the zeros stay.
func (c *call) whiten(asked bool, w Whitening, over []bool, keepZeros bool) error {
	if !asked {
		over = nil
	}
	raw, err := c.check(c.distinct(over))
	if err != nil || !asked {
		return err
	}
	c.raw = raw
	l, err := w.line(c.raw)
	if err != nil {
		return err
	}
	if c.zero = float32(l.at(0)); keepZeros {
		c.zero = 0
	}
	bad := c.zero - c.zero
	for t, v := range c.adv {
		if keepZeros && !over[t] {
			continue
		}
		c.adv[t] = float32(l.at(float64(v)))
		bad += c.adv[t] - c.adv[t]
	}
	if bad == 0 {
		return nil
	}
	if c.zero-c.zero != 0 {
		return fmt.Errorf("advantage outside the mask: 0 becomes %v after whitening: %w", c.zero, ErrNotFinite)
	}
	return c.finite("advantages", c.adv)
}

// distinct returns the mask without copies of rows.
func (c *call) distinct(over []bool) []bool {
	if c.source == nil || over == nil {
		return over
	}
	c.counted = append(c.counted[:0], over...)
	for row, from := range c.source {
		if from != row {
			clear(c.counted[c.Offsets[row]:c.Offsets[row+1]])
		}
	}
	return c.counted
}
