// Package rng derives every random draw of a run from one seed.
//
// A draw is keyed by its identity (run seed, step, group, episode, turn, purpose), not by
// the number of draws before it, so neither the number of workers nor a resume changes
// it.
package rng

import "math/rand/v2"

// Purpose separates the draws for different uses.
type Purpose uint64

// The purposes of the library's own draws.
const (
	Init     Purpose = iota + 1 // initial weights
	Level    Purpose = iota + 1 // seeds of training episodes
	Sample   Purpose = iota + 1 // sampling of response tokens
	Shuffle  Purpose = iota + 1 // order of rows in an update
	Script   Purpose = iota + 1 // scripted players
	Validate Purpose = iota + 1 // sampling during evaluation
	Rollback Purpose = iota + 1 // steps after a rollback
	World    Purpose = iota + 1 // an environment's draws after a branch point
	Credit   Purpose = iota + 1 // measurements of credit
	Replay   Purpose = iota + 1 // steps that a check of a run replays
)

// Derive hashes a seed and the identity of a draw to 64 well-mixed bits.
// Different identities, also of different lengths, give unrelated results.
func Derive(seed uint64, p Purpose, ids ...uint64) uint64 {
	h := mix(seed ^ 0x9e3779b97f4a7c15)
	h = mix(h ^ uint64(p)*0xd1342543de82ef95)
	for _, id := range ids {
		h = mix(h*0x2545f4914f6cdd1d + id + 0x9e3779b97f4a7c15)
	}
	return mix(h ^ uint64(len(ids)))
}

// New returns a generator for the draws of one identity.
func New(seed uint64, p Purpose, ids ...uint64) *rand.Rand {
	key := Derive(seed, p, ids...)
	return rand.New(rand.NewPCG(key, mix(key)))
}

// Order is a random order of the numbers from 0 to n-1, or with shuffle false their own.
func Order(shuffle bool, n int, seed uint64, p Purpose, ids ...uint64) []int {
	if shuffle {
		return New(seed, p, ids...).Perm(n)
	}
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	return order
}

// mix is the finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
