package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"vagen/env/frozenlake"
)

// slippingPlayer returns a player that misreads: each word of its statements is with probability
// slips another word that may stand in this place. Its move follows from the observation that it
// states, not from the picture, and is random with probability noise.
func slippingPlayer(slips, noise float64) func(r *rand.Rand, t *toldLake) (string, error) {
	return func(r *rand.Rand, t *toldLake) (string, error) {
		seen := strings.Fields(t.Describe())
		told := slip(r, seen, slips)
		move := frozenlake.Action(r.IntN(int(frozenlake.Actions)))
		if r.Float64() >= noise {
			move = follow(r, told, move)
		}
		response := t.Script(r, func(*rand.Rand, *frozenlake.Map, frozenlake.Cell) frozenlake.Action { return move }, 1)
		head, tail, found := strings.Cut(response, "<prediction>")
		predicted, tail, closed := strings.Cut(tail, "</prediction>")
		if !found || !closed || !strings.Contains(head, strings.Join(seen, " ")) {
			return "", fmt.Errorf("response %q does not have the statements of the lessons", response)
		}
		head = strings.Replace(head, strings.Join(seen, " "), strings.Join(told, " "), 1)
		return head + "<prediction>" + strings.Join(slip(r, strings.Fields(predicted), slips), " ") + "</prediction>" + tail,
			nil
	}
}

// choices returns the words that may stand in a place of a statement "goal V H free a b c d".
func choices(place int) []string {
	switch place {
	case 1:
		return []string{"up", "down", "same"}
	case 2:
		return []string{"left", "right", "same"}
	case 4, 5, 6, 7:
		return []string{frozenlake.Action(place - 4).String(), "hole", "none"}
	}
	return nil
}

// slip replaces each word that has alternatives by one of them, with a probability.
func slip(r *rand.Rand, statement []string, probability float64) []string {
	out := slices.Clone(statement)
	for i, word := range out {
		all := choices(i)
		if all == nil || r.Float64() >= probability {
			continue
		}
		others := slices.DeleteFunc(all, func(w string) bool { return w == word })
		out[i] = others[r.IntN(len(others))]
	}
	return out
}

// follow returns a move that an observation lets expect to be good: to a free cell towards the
// goal, else to any free cell, else the given one. Good moves are equally likely.
func follow(r *rand.Rand, told []string, otherwise frozenlake.Action) frozenlake.Action {
	var free, towards []frozenlake.Action
	for a := range frozenlake.Actions {
		name := a.String()
		if told[4+int(a)] != name {
			continue
		}
		free = append(free, a)
		if d := strings.ToLower(name); d == told[1] || d == told[2] {
			towards = append(towards, a)
		}
	}
	switch {
	case len(towards) > 0:
		return towards[r.IntN(len(towards))]
	case len(free) > 0:
		return free[r.IntN(len(free))]
	}
	return otherwise
}
