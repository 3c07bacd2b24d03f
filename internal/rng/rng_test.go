package rng_test

import (
	"math"
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/rng"
)

var purposes = []rng.Purpose{rng.Init, rng.Level, rng.Sample, rng.Shuffle, rng.Script, rng.Validate}

// TestDrawsAreStable: other numbers would change every recorded run.
// The keys were also computed in Python from the formula; the permutation is that
// of Go's PCG with them.
func TestDrawsAreStable(t *testing.T) {
	require.Equal(t, uint64(0xc8cad0da637712f0), rng.Derive(0, rng.Init))
	require.Equal(t, uint64(0x22d03e13805ad7c1), rng.Derive(1, rng.Sample, 2, 3, 4))
	r := rng.New(7, rng.Shuffle, 1, 0)
	require.Equal(t, []int{4, 3, 5, 0, 7, 2, 6, 1}, r.Perm(8))
}

// TestIdentitiesNeverCollide derives the numbers of a small run, with identities of every
// length, neighbours and permutations included. With 64 random bits the probability of a
// collision is below 1e-8.
func TestIdentitiesNeverCollide(t *testing.T) {
	type identity struct {
		seed uint64
		p    rng.Purpose
		n    int
		ids  [5]uint64
	}
	seen := map[uint64]identity{}
	add := func(seed uint64, p rng.Purpose, ids ...uint64) {
		key, who := rng.Derive(seed, p, ids...), identity{seed: seed, p: p, n: len(ids)}
		copy(who.ids[:], ids)
		if other, taken := seen[key]; taken {
			t.Fatalf("%+v and %+v give %#x", who, other, key)
		}
		seen[key] = who
	}
	for _, seed := range []uint64{0, 1, 2, 1 << 32, 1 << 63, math.MaxUint64} {
		for _, p := range purposes {
			add(seed, p)
			for a := range uint64(20) {
				add(seed, p, a)
				add(seed, p, math.MaxUint64-a)
				for b := range uint64(20) {
					add(seed, p, a, b)
					for c := range uint64(10) {
						add(seed, p, a, b, c)
					}
				}
			}
			add(seed, p, 0, 0, 0, 0)
			add(seed, p, 0, 0, 0, 0, 0)
		}
	}
}

// TestEveryBitOfAnIdentityCounts flips each input bit: every output bit must flip in about
// half of the cases. Over 64·N draws the share of
// one output bit has a standard error of 0.5/√(64·N) = 0.0044 at N = 200; five of
// them are allowed.
func TestEveryBitOfAnIdentityCounts(t *testing.T) {
	const n = 200
	for what, derive := range map[string]func(x uint64) uint64{
		"seed":     func(x uint64) uint64 { return rng.Derive(x, rng.Sample, 1, 2) },
		"first id": func(x uint64) uint64 { return rng.Derive(3, rng.Sample, x, 2) },
		"last id":  func(x uint64) uint64 { return rng.Derive(3, rng.Sample, 1, x) },
	} {
		var flips [64]int
		for x := range uint64(n) {
			before := derive(x)
			for bit := range 64 {
				for d := before ^ derive(x^1<<bit); d != 0; d &= d - 1 {
					flips[bits.TrailingZeros64(d)]++
				}
			}
		}
		for bit, k := range flips {
			require.InDelta(t, 0.5, float64(k)/(64*n), 0.022, "%s: output bit %d", what, bit)
		}
	}
}
