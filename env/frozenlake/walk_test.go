package frozenlake

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
)

// The reference rates were measured with an independent implementation on the
// levels of seeds 0..255 (random 0.20, blind 0.73, shortest path 1.00 with four
// turns of two moves; 0.19, 0.75, shy 0.92 with eight turns of one). Those are
// single runs of 256 episodes, with a standard error of at most 0.03; here twenty
// runs are averaged, which leaves theirs.
func TestReferencePlayersReachTheirKnownRates(t *testing.T) {
	const runs = 20
	o := DefaultOptions(env.Lite)
	o.RenderMode = env.Text
	e, err := New(o)
	require.NoError(t, err)
	for _, c := range []struct {
		name         string
		walk         Walker
		turns, moves int
		want, within float64
	}{
		{"random", Random, 4, 2, 0.20, 0.04},
		{"blind", HoleBlind, 4, 2, 0.73, 0.04},
		{"shortest path", ShortestPath, 4, 2, 1, 0},
		{"noisy", Noisy(0.8, ShortestPath), 4, 2, 0.37, 0.04},
		{"random, single moves", Random, 8, 1, 0.19, 0.04},
		{"blind, single moves", HoleBlind, 8, 1, 0.75, 0.04},
		{"shy, single moves", holeShy, 8, 1, 0.92, 0.03},
	} {
		mean := 0.0
		for run := range runs {
			script := func(r *rand.Rand) string { return e.Script(r, c.walk, c.moves) }
			rate, err := env.SuccessRate(t.Context(), e, 0, 256, c.turns, uint64(run), script)
			require.NoError(t, err)
			mean += rate / runs
		}
		t.Logf("%s: %.3f", c.name, mean)
		if math.Abs(mean-c.want) > c.within+1e-9 {
			t.Errorf("%s: success rate %.3f, want %.2f ± %.2f", c.name, mean, c.want, c.within)
		}
	}
}
