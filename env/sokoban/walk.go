package sokoban

import (
	"math/rand/v2"

	"vagen/env/internal/scripts"
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

// Greedy does not look ahead. It makes a move that pushes a box one cell nearer to its
// nearest target, if there is one. Otherwise it moves to a free cell nearer to one from which
// such a push would be possible without walls, and at random if there is none. It ignores
// detours and boxes that can no longer be moved. Equally good moves have equal probability.
func Greedy(r *rand.Rand, room *Room) Action {
	var moves [Actions]Action
	var gaps [Actions]int
	n, least := 0, room.rows*room.cols
	for a := range Actions {
		after := room.Clone()
		if !after.Move(a) {
			continue
		}
		gap := -1 // a push that brings a box nearer
		switch next := room.player.step(a); {
		case !room.Box(next):
			gap = after.gap()
		case after.away(next.step(a)) >= room.away(next):
			continue
		}
		moves[n], gaps[n] = a, gap
		least = min(least, gap)
		n++
	}
	if here := room.gap(); n == 0 || least >= here {
		return Random(r, room)
	}
	best := moves[:0]
	for i, a := range moves[:n] {
		if gaps[i] == least {
			best = append(best, a)
		}
	}
	return best[r.IntN(len(best))]
}

// Straight walks towards the nearest box that is on no target and pushes it in the direction in
// which it arrives. It ignores targets, and walls except in its next move. It has the success
// rate of an agent that perceives only where the box is.
func Straight(r *rand.Rand, room *Room) Action {
	nearest := func(c Cell) int {
		least := room.rows + room.cols
		for i, box := range room.boxes {
			if at := (Cell{i / room.cols, i % room.cols}); box && !room.Target(at) {
				least = min(least, apart(c, at))
			}
		}
		return least
	}
	var moves [Actions]Action
	n := 0
	for a := range Actions {
		if next := room.player.step(a); !room.Wall(next) && nearest(next) < nearest(room.player) {
			moves[n] = a
			n++
		}
	}
	if n == 0 {
		return Random(r, room)
	}
	return moves[r.IntN(n)]
}

// gap is the distance from the player to the nearest cell beside a box from which a push
// would bring the box nearer to its nearest target, walls ignored.
func (r *Room) gap() int {
	least := r.rows * r.cols
	for i, box := range r.boxes {
		at := Cell{i / r.cols, i % r.cols}
		if !box || r.Target(at) {
			continue
		}
		for a := range Actions {
			if next := at.step(a); r.away(next) < r.away(at) {
				least = min(least, apart(r.player, Cell{2*at.Row - next.Row, 2*at.Col - next.Col}))
			}
		}
	}
	return least
}

// away is the distance of a cell to the nearest target, walls ignored.
func (r *Room) away(c Cell) int {
	least := r.rows + r.cols
	for i, kind := range r.fixed {
		if kind == target {
			least = min(least, apart(c, Cell{i / r.cols, i % r.cols}))
		}
	}
	return least
}

func apart(a, b Cell) int {
	dr, dc := a.Row-b.Row, a.Col-b.Col
	return max(dr, -dr) + max(dc, -dc)
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
	return scripts.Compose(e.Parser(), "go", made, e.o.ActionSep,
		func() string { return e.room.describe(e.o.DescribeMoves) },
		func() string { return room.describe(false) })
}
