package advantage

import (
	"math"
	"slices"
	"testing"
)

// withAndWithout runs f with the kernels for vector registers, where there are
// some, and without them.
func withAndWithout(f func() []uint64) (with, without []uint64) {
	with = f()
	had := vectors
	vectors = false
	without = f()
	vectors = had
	return with, without
}

// TestVectorsGiveTheSameBits compares the kernels with the loops in Go, at all
// small lengths and alignments, on numbers of all sizes.
func TestVectorsGiveTheSameBits(t *testing.T) {
	g := newGenerator(5)
	number := func() float32 {
		switch g.IntN(8) {
		case 0:
			return 0
		case 1:
			return float32(math.Copysign(0, -1))
		case 2:
			return math.Float32frombits(uint32(g.IntN(1 << 23))) // subnormal
		}
		return g.number() * float32(math.Exp(10*float64(g.number())))
	}
	for n := range 70 {
		from := g.IntN(5)
		r, v := make([]float32, from+n), make([]float32, from+n)
		for i := range r {
			r[i], v[i] = number(), number()
		}
		r, v = r[from:], v[from:]
		in := make([]bool, from+n)
		for i := range in {
			in[i] = g.IntN(2) == 0
		}
		in = in[from:]
		for _, decay := range []float64{0, 0.95 * 0.99, 1} {
			start := recursion{gamma: 0.99, decay: decay, next: 0.3, acc: -0.7, spread: spread{n: 3, shift: 0.1, s1: 0.2, s2: 0.3}}
			with, without := withAndWithout(func() []uint64 {
				// One entry more on each side shows a store that misses.
				adv, ret := make([]float32, n+2), make([]float32, n+2)
				s := start
				advance(&s, r, v, adv[1:n+1], ret[1:n+1])
				out := bitsOf(s.next, s.acc, float64(s.spread.n), s.spread.s1, s.spread.s2, sum(r))
				scaled := make([]float32, n+2)
				scale32(scaled[1:n+1], r, 0.3, 1.7)
				cut := slices.Clone(scaled)
				scaleWhere32(cut[1:n+1], in, -0.2, 2.1)
				set, unset := make([]float32, n+2), make([]float32, n+2)
				if !prepare(r, v, set[1:n+1], unset[1:n+1], 7) {
					t.Fatalf("%d finite numbers were called otherwise", n)
				}
				return append(out, bits32(slices.Concat(adv, ret, scaled, cut, set, unset))...)
			})
			if !slices.Equal(with, without) {
				t.Fatalf("%d tokens, decay %v: other bits", n, decay)
			}
		}
	}
}

func bitsOf(x ...float64) (out []uint64) {
	for _, v := range x {
		out = append(out, math.Float64bits(v))
	}
	return out
}

func bits32(x []float32) (out []uint64) {
	for _, v := range x {
		out = append(out, uint64(math.Float32bits(v)))
	}
	return out
}

// TestVectorsChangeNoEstimate compares whole results, and what is refused.
func TestVectorsChangeNoEstimate(t *testing.T) {
	batch := shape{12, 700, true}.batch()
	broken := shape{12, 700, true}.batch()
	broken.Rewards[3000] = float32(math.Inf(1))
	for _, name := range Names() {
		est := named(t, name, testParams())
		with, without := withAndWithout(func() []uint64 {
			out := run(t, est, batch)
			return bits32(slices.Concat(out.Advantages, out.Returns))
		})
		if !slices.Equal(with, without) {
			t.Errorf("%s: other bits", name)
		}
		var said [2]string
		for i := range said {
			had := vectors
			vectors = vectors && i == 0
			if err := est.Estimate(new(Result), broken); err != nil {
				said[i] = err.Error()
			}
			vectors = had
		}
		if said[0] == "" || said[0] != said[1] {
			t.Errorf("%s: said %q, and without vectors %q", name, said[0], said[1])
		}
	}
}
