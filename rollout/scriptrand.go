package rollout

import (
	"math/rand/v2"

	"vagen/internal/rng"
)

// ScriptRand returns the generator of a scripted player for Demonstrate. ids identify the
// draw, for example the lesson, the episode's Group and the turn: equal seeds and ids
// give equal draws, whatever was drawn before.
func ScriptRand(seed uint64, ids ...uint64) *rand.Rand { return rng.New(seed, rng.Script, ids...) }
