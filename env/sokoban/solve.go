package sokoban

import "slices"

// maxSolved bounds the rooms that a search for a solution visits.
const maxSolved = 1 << 20

// position is a room during the search for a solution.
type position struct {
	player uint16
	boxes  [maxBoxes]uint16 // sorted
}

// came records how a position was reached.
type came struct {
	from position
	by   Action
}

// Solve returns a shortest sequence of moves that puts a box on every target, of
// at most maxMoves. It reports whether there is one; it gives up after about a
// million rooms. The room does not change.
//
// It searches breadth first and tries moves in the order up, down, left, right.
func (r *Room) Solve(maxMoves int) ([]Action, bool) {
	start := position{player: uint16(r.index(r.player))}
	n := 0
	for i, box := range r.boxes {
		if box {
			start.boxes[n] = uint16(i)
			n++
		}
	}
	if r.solved(&start, n) {
		return nil, true
	}
	offsets := [Actions]int{Up: -r.cols, Down: r.cols, Left: -1, Right: 1}
	paths := map[position]came{start: {}}
	frontier := []position{start}
	for depth := 0; depth < maxMoves && len(frontier) > 0 && len(paths) < maxSolved; depth++ {
		var next []position
		for _, now := range frontier {
			for a, offset := range offsets {
				then, ok := r.advance(now, n, offset)
				if !ok {
					continue
				}
				if _, seen := paths[then]; seen {
					continue
				}
				paths[then] = came{now, Action(a)}
				if r.solved(&then, n) {
					return trace(paths, start, then), true
				}
				next = append(next, then)
			}
		}
		frontier = next
	}
	return nil, false
}

// advance returns the position after a move and whether the player moved.
func (r *Room) advance(now position, n, offset int) (position, bool) {
	to := int(now.player) + offset
	if r.fixed[to] == wall {
		return now, false
	}
	if k, hit := slices.BinarySearch(now.boxes[:n], uint16(to)); hit {
		beyond := uint16(to + offset)
		if r.fixed[beyond] == wall || slices.Contains(now.boxes[:n], beyond) {
			return now, false
		}
		now.boxes[k] = beyond
		slices.Sort(now.boxes[:n])
	}
	now.player = uint16(to)
	return now, true
}

func (r *Room) solved(p *position, n int) bool {
	for _, b := range p.boxes[:n] {
		if r.fixed[b] != target {
			return false
		}
	}
	return true
}

func trace(paths map[position]came, start, at position) []Action {
	var moves []Action
	for at != start {
		step := paths[at]
		moves = append(moves, step.by)
		at = step.from
	}
	slices.Reverse(moves)
	return moves
}
