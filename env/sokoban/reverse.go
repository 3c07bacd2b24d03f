package sokoban

import "vagen/env"

// The originals make a puzzle by playing backwards from the solved room: a
// depth-first search over pulls and plain moves, which keeps the first room of
// the highest score. Its order, its limits and its quirks decide which room a
// seed gives, so all of them are reproduced here.

// maxExplored is the maximum number of rooms that a search visits.
const maxExplored = 300_000

// pulled is a box during the search.
type pulled struct {
	cell  uint16
	moved bool // the original distinguishes rooms that differ only in this
}

// scene is a room during the search, small enough to copy at each step.
type scene struct {
	player uint16
	last   int8 // box pulled last, −1 before the first pull
	boxes  [maxBoxes]pulled
}

// sceneKey identifies a scene; it does not depend on the order of boxes.
type sceneKey [2]uint64

type reverseSearch struct {
	room     *Room
	offsets  [Actions]int // from a cell to its neighbour
	targets  [maxBoxes]uint16
	n        int
	plain    bool // also try moves without a box, and ignore which box was pulled last
	explored map[sceneKey]struct{}
	best     scene
	score    int
	found    bool
}

// reversePlay turns a solved room into a puzzle. It reports whether a box was moved; if not, the
// room is unchanged.
func reversePlay(rules env.Rules, r *Room) bool {
	s := &reverseSearch{room: r, n: r.count, plain: rules != env.Legacy, explored: make(map[sceneKey]struct{}),
		offsets: [Actions]int{Up: -r.cols, Down: r.cols, Left: -1, Right: 1}}
	start := scene{player: uint16(r.index(r.player)), last: -1}
	k := 0
	for i, box := range r.boxes {
		if box {
			s.targets[k] = uint16(i)
			start.boxes[k].cell = uint16(i)
			k++
		}
	}
	depth := 100
	if rules != env.Legacy {
		depth = 300
	}
	s.visit(start, 0, depth)
	if s.displacement(&s.best) == 0 || rules != env.Legacy && s.score == 0 {
		return false
	}
	clear(r.boxes)
	for _, b := range s.best.boxes[:s.n] {
		r.boxes[b.cell] = true
	}
	r.player = Cell{int(s.best.player) / r.cols, int(s.best.player) % r.cols}
	return true
}

// visit explores a scene and those reachable from it within the given depth. swaps is the
// number of times that a different box was pulled than before.
func (s *reverseSearch) visit(now scene, swaps, depth int) {
	depth--
	if depth <= 0 || len(s.explored) >= maxExplored {
		return
	}
	key := s.key(&now)
	if _, seen := s.explored[key]; seen {
		return
	}
	score := 0
	if s.targetsFree(&now) {
		score = swaps * s.displacement(&now)
	}
	if !s.found || score > s.score {
		s.best, s.score, s.found = now, score, true
	}
	s.explored[key] = struct{}{}
	for a := range Actions {
		s.follow(now, a, true, swaps, depth)
	}
	if s.plain {
		for a := range Actions {
			s.follow(now, a, false, swaps, depth)
		}
	}
}

// follow visits the scene after a move, which pulls a box along if there is one
// behind the player and pull is set.
func (s *reverseSearch) follow(now scene, a Action, pull bool, swaps, depth int) {
	from := int(now.player)
	to := from + s.offsets[a]
	if s.room.fixed[to] == wall || s.boxAt(&now, to) >= 0 {
		return // nothing changes, so the scene has been explored
	}
	now.player = uint16(to)
	last := now.last
	if pull {
		if k := s.boxAt(&now, from-s.offsets[a]); k >= 0 {
			now.boxes[k] = pulled{cell: uint16(from), moved: true}
			if int8(k) != last {
				swaps++
			}
			if !s.plain {
				now.last = int8(k)
			}
		}
	}
	s.visit(now, swaps, depth)
}

func (s *reverseSearch) boxAt(now *scene, cell int) int {
	for k := range now.boxes[:s.n] {
		if int(now.boxes[k].cell) == cell {
			return k
		}
	}
	return -1
}

// targetsFree reports whether neither a box nor the player stands on a target.
func (s *reverseSearch) targetsFree(now *scene) bool {
	for _, t := range s.targets[:s.n] {
		if now.player == t || s.boxAt(now, int(t)) >= 0 {
			return false
		}
	}
	return true
}

// displacement returns how far the boxes are from their targets, in moves.
func (s *reverseSearch) displacement(now *scene) int {
	sum, cols := 0, s.room.cols
	for k, b := range now.boxes[:s.n] {
		at, home := int(b.cell), int(s.targets[k])
		dr, dc := at/cols-home/cols, at%cols-home%cols
		sum += max(dr, -dr) + max(dc, -dc)
	}
	return sum
}

// key packs a scene: ten bits for the player and eleven for each box, in order.
func (s *reverseSearch) key(now *scene) sceneKey {
	var codes [maxBoxes]uint16
	for k, b := range now.boxes[:s.n] {
		code := b.cell << 1
		if b.moved {
			code |= 1
		}
		i := k
		for ; i > 0 && codes[i-1] > code; i-- {
			codes[i] = codes[i-1]
		}
		codes[i] = code
	}
	key := sceneKey{uint64(now.player), 0}
	for k, code := range codes[:s.n] {
		if k < 4 {
			key[0] = key[0]<<11 | uint64(code)
		} else {
			key[1] = key[1]<<11 | uint64(code)
		}
	}
	return key
}
