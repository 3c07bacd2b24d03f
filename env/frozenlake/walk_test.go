package frozenlake

import (
	"math"
	"testing"
)

// The reference rates were measured with an independent implementation on the
// levels of seeds 0..255 (random 0.20, blind 0.73, shortest path 1.00 with four
// turns of two moves; 0.19, 0.75, shy 0.92 with eight turns of one). A rate over
// 256 episodes has a standard error of at most 0.031; three of them are allowed.
func TestReferencePlayersReachTheirKnownRates(t *testing.T) {
	o := Defaults(Lite)
	for _, c := range []struct {
		name         string
		walk         Walker
		turns, moves int
		want, within float64
	}{
		{"random", Random, 4, 2, 0.20, 0.09},
		{"blind", HoleBlind, 4, 2, 0.73, 0.09},
		{"shortest path", ShortestPath, 4, 2, 1, 0},
		{"noisy", Noisy(0.8, ShortestPath), 4, 2, 0.37, 0.09},
		{"random, single moves", Random, 8, 1, 0.19, 0.09},
		{"blind, single moves", HoleBlind, 8, 1, 0.75, 0.09},
		{"shy, single moves", HoleShy, 8, 1, 0.92, 0.06},
	} {
		got, err := SuccessRate(o, c.walk, 0, 256, c.turns, c.moves, 1)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %.3f", c.name, got)
		if math.Abs(got-c.want) > c.within {
			t.Errorf("%s: success rate %.3f, want %.2f ± %.2f", c.name, got, c.want, c.within)
		}
	}
}
