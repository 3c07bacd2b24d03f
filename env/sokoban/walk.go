package sokoban

import (
	"math/rand/v2"
	"strings"

	"vagen/env/internal/baseline"
	"vagen/reward"
)

// Walker chooses a move in a room, which it must not change. Walkers see the room
// itself, not the agent's observation.
type Walker func(r *rand.Rand, room *Room) Action

// Random makes each move with equal probability.
func Random(r *rand.Rand, _ *Room) Action { return Action(r.IntN(int(Actions))) }

// ShortestPath makes the first move of a shortest solution, or a random one when
// there is no solution of at most 200 moves.
func ShortestPath(r *rand.Rand, room *Room) Action {
	if moves, ok := room.Solve(200); ok && len(moves) > 0 {
		return moves[0]
	}
	return Random(r, room)
}

// Noisy makes a uniformly random move with probability eps, else w's.
func Noisy(eps float64, w Walker) Walker {
	return func(r *rand.Rand, room *Room) Action {
		if r.Float64() < eps {
			return Random(r, room)
		}
		return w(r, room)
	}
}

// Script writes the response with which a walker would play the current turn, of
// at most the given number of moves, in the environment's format. What it says
// about the state before and after the moves is true. The environment does not
// change. Script returns "" before Reset.
func (e *Env) Script(r *rand.Rand, w Walker, moves int) string {
	if e.room == nil {
		return ""
	}
	room := e.room.Clone()
	var made []string
	for range moves {
		a := w(r, room)
		room.Move(a)
		made = append(made, a.String())
		if room.OnTarget() == room.count {
			break
		}
	}
	return e.Parser().Compose(func(section string) string {
		switch section {
		case reward.SectionObservation:
			return e.room.describe(e.o.DescribeMoves)
		case reward.SectionPrediction:
			return room.describe(false)
		case reward.SectionAnswer:
			return strings.Join(made, e.o.ActionSep)
		}
		return "I go " + strings.Join(made, ", ") + "."
	})
}

// SuccessRate plays a walker on the rooms of the seeds first, first+1, … and
// returns the share of episodes that it solves within turns of the given number
// of moves. Equal arguments give equal results.
func SuccessRate(o Options, w Walker, first int64, episodes, turns, moves int, randomness uint64) (float64, error) {
	e, err := New(o)
	if err != nil {
		return 0, err
	}
	return baseline.SuccessRate(e, first, episodes, turns, randomness, func(r *rand.Rand) string { return e.Script(r, w, moves) })
}
