package advantage

import "math"

// scan is the innermost loop of the advantage recursions. It processes blocks of four
// tokens with a parallel prefix sum, so that only one product and one sum per block are
// sequential. With x the decay, e the deltas of tokens 0 … 3, and A(4) the advantage of
// the token after them,
//
//	f(i) = e(i) + x·e(i+1)       i < 3
//	g(i) = f(i) + x²·f(i+2)      i < 2, else f(i)
//	A(i) = g(i) + x^(4−i)·A(4)
//
// All arithmetic is float64, and a product that is added is fused with the sum, so that
// all machines give the same bits.
type scan struct {
	gamma     float64
	shifted   [4]float64 // x, x, x, 0: times the following token's delta
	double    float64    // x²
	carried   [4]float64 // x⁴, x³, x², x: times the advantage that came before
	next, acc float64    // V and A of the following token
	shift     float64
	s1, s2    [4]float64 // sums of the advantages minus shift, and of their squares
}

// start prepares a scan that continues from the state of the recursion.
func (k *scan) start(s *recursion) {
	x, x2 := s.decay, s.decay*s.decay
	*k = scan{
		gamma: s.gamma, shifted: [4]float64{x, x, x, 0}, double: x2,
		carried: [4]float64{x2 * x2, x2 * x, x2, x},
		next:    s.next, acc: s.acc, shift: s.spread.shift,
	}
}

// stop copies the state back to the recursion after n tokens.
func (k *scan) stop(s *recursion, n int) {
	s.next, s.acc = k.next, k.acc
	s.spread.n += n
	s.spread.s1 += (k.s1[0] + k.s1[1]) + (k.s1[2] + k.s1[3])
	s.spread.s2 += (k.s2[0] + k.s2[1]) + (k.s2[2] + k.s2[3])
}

// blocks applies the recursion to blocks of four tokens, the last block first. The vector
// kernel does the same steps. The additions of 0 reproduce its handling of −0.
func blocks[T number](k *scan, r, v, adv, ret []T) {
	gamma, x, x2, p, shift := k.gamma, k.shifted[0], k.double, k.carried, k.shift
	next, acc := k.next, k.acc
	for t := len(r) - 4; t >= 0; t -= 4 {
		r, v, adv, ret := (*[4]T)(r[t:]), (*[4]T)(v[t:]), (*[4]T)(adv[t:]), (*[4]T)(ret[t:])
		v0, v1, v2, v3 := float64(v[0]), float64(v[1]), float64(v[2]), float64(v[3])
		e0 := math.FMA(gamma, v1, float64(r[0])) - v0
		e1 := math.FMA(gamma, v2, float64(r[1])) - v1
		e2 := math.FMA(gamma, v3, float64(r[2])) - v2
		e3 := math.FMA(gamma, next, float64(r[3])) - v3
		f0, f1, f2, f3 := math.FMA(x, e1, e0), math.FMA(x, e2, e1), math.FMA(x, e3, e2), math.FMA(0, e0, e3)
		a0 := math.FMA(p[0], acc, math.FMA(x2, f2, f0))
		a1 := math.FMA(p[1], acc, math.FMA(x2, f3, f1))
		a2 := math.FMA(p[2], acc, f2+0)
		a3 := math.FMA(p[3], acc, f3+0)
		next, acc = v0, a0
		adv[0], adv[1], adv[2], adv[3] = T(a0), T(a1), T(a2), T(a3)
		ret[0], ret[1], ret[2], ret[3] = T(a0+v0), T(a1+v1), T(a2+v2), T(a3+v3)
		k.add(a0-shift, a1-shift, a2-shift, a3-shift)
	}
	k.next, k.acc = next, acc
}

// add counts the distances of a block's advantages to the shift.
func (k *scan) add(d0, d1, d2, d3 float64) {
	k.s1[0] += d0
	k.s1[1] += d1
	k.s1[2] += d2
	k.s1[3] += d3
	k.s2[0] = math.FMA(d0, d0, k.s2[0])
	k.s2[1] = math.FMA(d1, d1, k.s2[1])
	k.s2[2] = math.FMA(d2, d2, k.s2[2])
	k.s2[3] = math.FMA(d3, d3, k.s2[3])
}
