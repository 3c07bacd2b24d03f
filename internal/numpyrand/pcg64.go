package numpyrand

import "math/bits"

// PCG64 is numpy.random.default_rng(seed): the generator PCG XSL-RR 128/64 of
// O'Neill (2014), seeded through SeedSequence.
type PCG64 struct {
	hi, lo       uint64 // 128-bit state
	incHi, incLo uint64 // 128-bit odd increment
	half         uint32 // upper half of a 64-bit draw, kept for the next 32-bit draw
	hasHalf      bool
}

const (
	pcgMulHi = 0x2360ed051fc65da4
	pcgMulLo = 0x4385df649fccf645
)

// Seed restarts g as the stream of the seed.
func (g *PCG64) Seed(seed uint64) {
	var s [4]uint64
	seedSequence(seed, &s)
	*g = PCG64{
		incHi: s[2]<<1 | s[3]>>63,
		incLo: s[3]<<1 | 1,
	}
	g.step()
	var carry uint64
	g.lo, carry = bits.Add64(g.lo, s[1], 0)
	g.hi, _ = bits.Add64(g.hi, s[0], carry)
	g.step()
}

func (g *PCG64) step() {
	hi, lo := bits.Mul64(g.lo, pcgMulLo)
	hi += g.hi*pcgMulLo + g.lo*pcgMulHi
	var carry uint64
	g.lo, carry = bits.Add64(lo, g.incLo, 0)
	g.hi, _ = bits.Add64(hi, g.incHi, carry)
}

// Uint64 returns the next 64 bits. It does not use a half kept by Uint32.
func (g *PCG64) Uint64() uint64 {
	g.step()
	return bits.RotateLeft64(g.hi^g.lo, -int(g.hi>>58))
}

// Uint32 returns the next 32 bits: the low half of a fresh 64-bit draw first,
// then its high half.
func (g *PCG64) Uint32() uint32 {
	if g.hasHalf {
		g.hasHalf = false
		return g.half
	}
	x := g.Uint64()
	g.half, g.hasHalf = uint32(x>>32), true
	return uint32(x)
}

// Float64 returns a uniform number in [0, 1) with 53 bits.
func (g *PCG64) Float64() float64 {
	return float64(g.Uint64()>>11) * 0x1p-53
}

// IntN returns a uniform integer in [0, n), as Generator.integers(n) does: by
// Lemire's multiplication method (arXiv:1805.10941) on 32 bits. It consumes
// nothing for n ≤ 1.
func (g *PCG64) IntN(n uint32) uint32 {
	if n <= 1 {
		return 0
	}
	m := uint64(g.Uint32()) * uint64(n)
	if uint32(m) < n {
		threshold := -n % n
		for uint32(m) < threshold {
			m = uint64(g.Uint32()) * uint64(n)
		}
	}
	return uint32(m >> 32)
}

// seedSequence is numpy.random.SeedSequence(seed).generate_state(4, uint64) for
// a seed below 2⁶⁴.
func seedSequence(seed uint64, out *[4]uint64) {
	const (
		initA, multA = 0x43b0d7e5, 0x931e8875
		initB, multB = 0x8b51f9dd, 0x58f38ded
		mixL, mixR   = 0xca01f9dd, 0x4973f715
	)
	pool := [4]uint32{uint32(seed), uint32(seed >> 32)}
	key := uint32(initA)
	hash := func(v uint32) uint32 {
		v ^= key
		key *= multA
		v *= key
		return v ^ v>>16
	}
	for i := range pool {
		pool[i] = hash(pool[i])
	}
	for src := range pool {
		for dst := range pool {
			if src == dst {
				continue
			}
			x := mixL*pool[dst] - mixR*hash(pool[src])
			pool[dst] = x ^ x>>16
		}
	}
	key = initB
	for i := range 8 {
		v := pool[i%4] ^ key
		key *= multB
		v *= key
		v ^= v >> 16
		if i%2 == 0 {
			out[i/2] = uint64(v)
		} else {
			out[i/2] |= uint64(v) << 32
		}
	}
}
