package advantage

import (
	"fmt"
	"math"
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
		return Moments{}, fmt.Errorf("advantage: whiten: %d numbers, %d in mask, %d in dst: %w", len(x), len(mask), len(dst), ErrLength)
	}
	if !finite(x) {
		for t, v := range x {
			if v-v != 0 {
				return Moments{}, fmt.Errorf("advantage: whiten: position %d: %v: %w", t, v, ErrNotFinite)
			}
		}
	}
	m := momentsOf(x, mask)
	s, err := w.line(m)
	if err != nil {
		return m, fmt.Errorf("advantage: whiten: %w", err)
	}
	applyLine(s, dst, x)
	if !finite(dst) {
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
	if w.Guard < 0 || w.Guard-w.Guard != 0 {
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

// applyLine maps all of x into dst, which may be x.
func applyLine[T number](l line, dst, x []T) {
	if l.add != 0 {
		for t, v := range x {
			dst[t] = T(l.at(float64(v)))
		}
		return
	}
	scale(dst, x, l.shift, l.scale)
}

// offMask is the treatment of positions outside the mask in whitening.
type offMask int

const (
	mapAll    offMask = iota // they have any value and are mapped
	mapKnown                 // they are 0 or other tokens' advantages, and are mapped
	keepZeros                // they are 0 and are not changed
)

// whiten replaces the raw advantages by whitened ones, from the moments that
// the rows' passes recorded. No estimator keeps the mean.
func (c *call[T]) whiten(w Whitening, off offMask) error {
	for _, part := range c.scratch.parts {
		c.raw.merge(part)
	}
	l, err := w.line(c.raw)
	if err != nil {
		return err
	}
	zero := T(l.at(0))
	if zero-zero != 0 {
		return fmt.Errorf("advantage outside the mask: 0 becomes %v after whitening: %w", zero, ErrNotFinite)
	}
	p := slot[whitenPass[T]](c.scratch, whitenSlot)
	*p = whitenPass[T]{c: c, line: l, off: off}
	return c.scratch.each(p, c.rows(), c.tokens())
}

type whitenPass[T number] struct {
	c    *call[T]
	line line
	off  offMask
}

func (p *whitenPass[T]) do(from, to int) {
	c := p.c
	lo, hi := c.offsets[from], c.offsets[to]
	adv := c.adv[lo:hi]
	if p.off == keepZeros {
		scaleWhere(adv, c.mask[lo:hi], p.line.shift, p.line.scale)
		return
	}
	scale(adv, adv, p.line.shift, p.line.scale)
	if p.off == mapAll {
		p.check(from, to)
	}
}

// check checks that the mapped numbers off the mask are finite. Under the mask no number
// is further out than √n deviations, but a critic's values of padding are arbitrary.
func (p *whitenPass[T]) check(from, to int) {
	c := p.c
	for row := from; row < to; row++ {
		hi := c.offsets[row+1]
		for t := c.offsets[row]; t < hi; {
			end, in := runFrom(c.mask, t, hi)
			if !in && !finite(c.adv[t:end]) {
				c.examine(row, true)
				break
			}
			t = end
		}
	}
}
