package sokoban

import (
	"encoding/binary"
	"math/bits"
	"strconv"
)

// RetryRule chooses the next seed after one that gave no accepted room.
type RetryRule string

// The retry rules.
const (
	// RetryHash takes Python's hash of the seed's decimal text, as the originals
	// do, with the key that PYTHONHASHSEED=0 sets: zero. Without that setting,
	// Python salts the hash for each process, and nothing can reproduce it.
	RetryHash RetryRule = "hash"
	// RetryLCG steps a linear congruential generator, as VAGEN's later version
	// does: s ← 1664525·s + 1013904223 mod 2³².
	RetryLCG RetryRule = "lcg"
)

// Next returns the seed after one that failed. It is below 2³².
func (r RetryRule) Next(seed int64) int64 {
	if r == RetryLCG {
		return int64(uint32(seed)*1664525 + 1013904223)
	}
	h := int64(sipHash13(strconv.FormatInt(seed, 10)))
	if h == -1 {
		h = -2 // Python keeps −1 for errors
	}
	if h < 0 {
		h = -h
	}
	// The magnitude of the lowest number wraps to itself and is 0 below 2³².
	return int64(uint32(h))
}

// sipHash13 is SipHash-1-3 (Aumasson and Bernstein, 2012, with one round per word
// and three at the end) under the zero key.
func sipHash13(s string) uint64 {
	v0, v1, v2, v3 := uint64(0x736f6d6570736575), uint64(0x646f72616e646f6d), uint64(0x6c7967656e657261),
		uint64(0x7465646279746573)
	round := func() {
		v0 += v1
		v2 += v3
		v1 = bits.RotateLeft64(v1, 13) ^ v0
		v3 = bits.RotateLeft64(v3, 16) ^ v2
		v0 = bits.RotateLeft64(v0, 32)
		v2 += v1
		v0 += v3
		v1 = bits.RotateLeft64(v1, 17) ^ v2
		v3 = bits.RotateLeft64(v3, 21) ^ v0
		v2 = bits.RotateLeft64(v2, 32)
	}
	absorb := func(word uint64) {
		v3 ^= word
		round()
		v0 ^= word
	}
	length := uint64(len(s))
	for ; len(s) >= 8; s = s[8:] {
		absorb(binary.LittleEndian.Uint64([]byte(s[:8])))
	}
	var tail [8]byte
	copy(tail[:], s)
	absorb(binary.LittleEndian.Uint64(tail[:]) | length<<56)
	v2 ^= 0xff
	for range 3 {
		round()
	}
	return v0 ^ v1 ^ v2 ^ v3
}
