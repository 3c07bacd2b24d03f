package numpyrand

import "math/bits"

// MT19937 is the Mersenne Twister of Matsumoto and Nishimura (1998) with the two
// seedings and the derived draws of Python's random module and of numpy's legacy
// RandomState. The zero value is not a valid stream: seed it first.
type MT19937 struct {
	state [624]uint32
	next  int
}

// SeedPython restarts the stream as random.seed(seed) does for an integer, of
// which only the magnitude counts.
func (m *MT19937) SeedPython(seed int64) {
	abs := uint64(seed)
	if seed < 0 {
		abs = -abs
	}
	m.SeedPythonUint64(abs)
}

// SeedPythonUint64 is SeedPython for seeds up to 2⁶⁴−1: init_by_array over the
// 32-bit words of the seed, lowest first.
func (m *MT19937) SeedPythonUint64(seed uint64) {
	key := [2]uint32{uint32(seed), uint32(seed >> 32)}
	words := 1
	if key[1] != 0 {
		words = 2
	}
	m.SeedNumpy(19650218)
	i, j := 1, 0
	for range len(m.state) {
		m.state[i] = (m.state[i] ^ (m.state[i-1]^m.state[i-1]>>30)*1664525) + key[j] + uint32(j)
		if j++; j >= words {
			j = 0
		}
		i = m.wrap(i + 1)
	}
	for range len(m.state) - 1 {
		m.state[i] = (m.state[i] ^ (m.state[i-1]^m.state[i-1]>>30)*1566083941) - uint32(i)
		i = m.wrap(i + 1)
	}
	m.state[0] = 1 << 31
}

func (m *MT19937) wrap(i int) int {
	if i < len(m.state) {
		return i
	}
	m.state[0] = m.state[len(m.state)-1]
	return 1
}

// SeedNumpy restarts the stream as numpy.random.seed(seed) does: init_genrand.
func (m *MT19937) SeedNumpy(seed uint32) {
	m.state[0] = seed
	for i := 1; i < len(m.state); i++ {
		m.state[i] = 1812433253*(m.state[i-1]^m.state[i-1]>>30) + uint32(i)
	}
	m.next = len(m.state)
}

// Uint32 returns the next 32 bits.
func (m *MT19937) Uint32() uint32 {
	if m.next >= len(m.state) {
		m.refill()
	}
	y := m.state[m.next]
	m.next++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

func (m *MT19937) refill() {
	const n, shift = len(m.state), 397
	for i := range n {
		y := m.state[i]&0x80000000 | m.state[(i+1)%n]&0x7fffffff
		x := m.state[(i+shift)%n] ^ y>>1
		if y&1 != 0 {
			x ^= 0x9908b0df
		}
		m.state[i] = x
	}
	m.next = 0
}

// Float64 returns a uniform number in [0, 1) with 53 bits from two 32-bit draws,
// as random.random and RandomState.random_sample do.
func (m *MT19937) Float64() float64 {
	a, b := m.Uint32()>>5, m.Uint32()>>6
	return (float64(a)*(1<<26) + float64(b)) / (1 << 53)
}

// Below returns a uniform integer in [0, n) as random.randrange and
// random.choice do: the top bits of a draw, as many as n has, drawn again while
// they reach n. It panics for n = 0, as any such draw must.
func (m *MT19937) Below(n uint64) uint64 {
	if n == 0 {
		panic("numpyrand: Below(0)")
	}
	k := bits.Len64(n)
	for {
		x := uint64(m.Uint32())
		if k <= 32 {
			x >>= 32 - k
		} else {
			x |= uint64(m.Uint32()>>(64-k)) << 32
		}
		if x < n {
			return x
		}
	}
}

// RandInt returns a uniform integer in [0, n) as the legacy numpy.random.randint
// does: the low bits of a draw, drawn again while they reach n. It consumes
// nothing for n ≤ 1.
func (m *MT19937) RandInt(n uint32) uint32 {
	if n <= 1 {
		return 0
	}
	mask := uint32(1)<<bits.Len32(n-1) - 1
	for {
		if x := m.Uint32() & mask; x < n {
			return x
		}
	}
}
