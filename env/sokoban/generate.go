package sokoban

import (
	"fmt"

	"vagen/env"
	"vagen/internal/numpyrand"
)

// tries is the number of rooms generated for a seed before the seed fails.
const tries = 4

// Generate returns the room of a seed with the given number of boxes, as the rule set's
// original does. The streams are Python's random.seed(seed) and numpy's
// random.seed(seed); numpy accepts only seeds below 2³², so for larger ones the low 32
// bits are used here.
//
// Errors wrap ErrRoom: sides outside 3..32, boxes outside 1..9, a negative seed,
// and seeds that give no playable room; Options.Retry chooses the next seed then.
func Generate(rules env.Rules, seed int64, rows, cols, boxes int) (*Room, error) {
	switch {
	case min(rows, cols) < minSide || max(rows, cols) > maxSide:
		return nil, fmt.Errorf("sokoban: room of %d×%d: %w; allowed are sides of %d to %d", rows, cols, ErrRoom, minSide,
			maxSide)
	case boxes < 1 || boxes > maxBoxes:
		return nil, fmt.Errorf("sokoban: %d boxes: %w; allowed are 1 to %d", boxes, ErrRoom, maxBoxes)
	case seed < 0:
		return nil, fmt.Errorf("sokoban: seed %d: %w; seeds must not be negative", seed, ErrRoom)
	}
	var g generator
	g.python.SeedPython(seed)
	g.numpy.SeedNumpy(uint32(seed))
	for range tries {
		fixed := g.carve(rows, cols)
		room, ok := g.furnish(fixed, rows, cols, boxes)
		if !ok {
			return nil, fmt.Errorf("sokoban: seed %d: %w; the room has too little floor for %d boxes", seed, ErrRoom, boxes)
		}
		if !reversePlay(rules, room) {
			continue
		}
		if rules == env.Legacy {
			g.movePlayerAtRandom(room)
		}
		return room, nil
	}
	return nil, fmt.Errorf("sokoban: seed %d: %w; no playable room in %d tries", seed, ErrRoom, tries)
}

type generator struct{ python, numpy numpyrand.MT19937 }

// The directions of the carving walk: down, right, up, left.
var walkSteps = [4]Cell{{1, 0}, {0, 1}, {-1, 0}, {0, -1}}

// The patterns of cells that the walk carves around itself, as offsets from their upper left.
var walkMasks = [5][]Cell{
	{{1, 0}, {1, 1}, {1, 2}},
	{{0, 1}, {1, 1}, {2, 1}},
	{{1, 0}, {1, 1}, {2, 1}},
	{{1, 0}, {1, 1}, {2, 0}, {2, 1}},
	{{1, 1}, {1, 2}, {2, 1}},
}

// turnShare is the probability that the walk draws a new direction, stepsPerSide
// the length of the walk over the sum of the sides.
var turnShare, stepsPerSide = 0.35, 1.7

// carve generates the floor of a room by a random walk.
func (g *generator) carve(rows, cols int) []byte {
	fixed := make([]byte, rows*cols)
	direction := g.python.Below(4)
	at := Cell{1 + int(g.python.Below(uint64(rows-1))), 1 + int(g.python.Below(uint64(cols-1)))}
	for range int(stepsPerSide * float64(rows+cols)) {
		if g.python.Float64() < turnShare {
			direction = g.python.Below(4)
		}
		at.Row = max(min(at.Row+walkSteps[direction].Row, rows-2), 1)
		at.Col = max(min(at.Col+walkSteps[direction].Col, cols-2), 1)
		for _, d := range walkMasks[g.python.Below(5)] {
			fixed[(at.Row-1+d.Row)*cols+at.Col-1+d.Col] = floor
		}
	}
	for row := range rows {
		for col := range cols {
			if row == 0 || col == 0 || row == rows-1 || col == cols-1 {
				fixed[row*cols+col] = wall
			}
		}
	}
	return fixed
}

// furnish places the player and then the boxes, on their targets, on free floor. It reports
// whether there is enough floor.
func (g *generator) furnish(fixed []byte, rows, cols, boxes int) (*Room, bool) {
	var free []int
	for i, kind := range fixed {
		if kind == floor {
			free = append(free, i)
		}
	}
	if len(free) <= boxes+1 {
		return nil, false
	}
	take := func() int {
		k := g.numpy.RandInt(uint32(len(free)))
		i := free[k]
		free = append(free[:k], free[k+1:]...)
		return i
	}
	r := &Room{rows: rows, cols: cols, fixed: fixed, boxes: make([]bool, len(fixed)), count: boxes}
	i := take()
	r.player = Cell{i / cols, i % cols}
	for range boxes {
		i := take()
		fixed[i] = target
		r.boxes[i] = true
	}
	return r, true
}

// movePlayerAtRandom moves the player of a legacy room with probability one half, by up to three steps to
// cells that it has not visited.
func (g *generator) movePlayerAtRandom(r *Room) {
	if g.python.Float64() > 0.5 {
		return
	}
	been := []Cell{r.player}
	for range 3 {
		var ways []Cell
		for a := range Actions {
			next := r.player.step(a)
			if r.Wall(next) || r.Box(next) {
				continue
			}
			seen := false
			for _, c := range been {
				seen = seen || c == next
			}
			if !seen {
				ways = append(ways, next)
			}
		}
		if len(ways) == 0 {
			return
		}
		r.player = ways[g.python.Below(uint64(len(ways)))]
		been = append(been, r.player)
		if g.python.Float64() > 0.5 {
			return
		}
	}
}
