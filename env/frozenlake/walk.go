package frozenlake

import (
	"math/rand/v2"

	"vagen/env/internal/scripts"
)

// Walker chooses a move from a cell of a level. Walkers see the level itself, not
// the agent's observation.
type Walker func(r *rand.Rand, m *Map, at Cell) Action

// Random makes each move with equal probability.
func Random(r *rand.Rand, _ *Map, _ Cell) Action { return Action(r.IntN(int(Actions))) }

// ShortestPath makes a move of a shortest path to the goal, each with equal probability. If
// there is no path, it is Random.
func ShortestPath(r *rand.Rand, m *Map, at Cell) Action {
	here := m.Distance(at)
	return anyOf(r, m, at, func(next Cell) bool {
		d := m.Distance(next)
		return d >= 0 && d < here
	})
}

// HoleBlind knows the direction of the goal and ignores holes: each move that reduces
// the distance to the goal is equally likely. It has the success rate of an agent that
// reads only the goal's position from the picture.
func HoleBlind(r *rand.Rand, m *Map, at Cell) Action {
	here := apart(at, m.goal)
	return anyOf(r, m, at, func(next Cell) bool { return apart(next, m.goal) < here })
}

// holeShy is HoleBlind, except that it avoids adjacent holes: if no safe move leads towards
// the goal, it moves to any free cell. It uses only the adjacent cells.
func holeShy(r *rand.Rand, m *Map, at Cell) Action {
	here := apart(at, m.goal)
	free := func(next Cell) bool { return m.inside(next) && m.At(next) != Hole }
	for a := range Actions {
		if next := at.step(a); free(next) && apart(next, m.goal) < here {
			return anyOf(r, m, at, func(next Cell) bool { return free(next) && apart(next, m.goal) < here })
		}
	}
	return anyOf(r, m, at, free)
}

// Noisy makes a uniformly random move with probability eps, else w's.
func Noisy(eps float64, w Walker) Walker {
	return func(r *rand.Rand, m *Map, at Cell) Action {
		if r.Float64() < eps {
			return Random(r, m, at)
		}
		return w(r, m, at)
	}
}

// anyOf draws one of the moves whose next cell is good, or any move if there is none.
func anyOf(r *rand.Rand, m *Map, at Cell, good func(next Cell) bool) Action {
	var moves [Actions]Action
	n := 0
	for a := range Actions {
		if good(at.step(a)) {
			moves[n] = a
			n++
		}
	}
	if n == 0 {
		return Random(r, m, at)
	}
	return moves[r.IntN(n)]
}

func apart(a, b Cell) int {
	dr, dc := a.Row-b.Row, a.Col-b.Col
	return max(dr, -dr) + max(dc, -dc)
}

// Script returns the response of a walker for the current turn, with at most the given number
// of moves, in the environment's format. Its statements about the state before and after the
// moves are correct if no move slips. The environment does not change. Script returns ""
// before Reset.
func (e *Env) Script(r *rand.Rand, w Walker, moves int) string {
	if e.level == nil {
		return ""
	}
	at := e.at
	var words []string
	for range moves {
		a := w(r, e.level, at)
		at = e.level.Move(at, a)
		words = append(words, a.String())
		if e.level.ends(at) {
			break
		}
	}
	return scripts.Compose(e.Parser(), "go", words, e.o.ActionSep,
		func() string { return e.level.describe(e.at, e.o.DescribeHoles) },
		func() string { return e.level.describe(at, false) })
}
