package navigation

import (
	"math"
	"slices"
)

// Heading is a compass direction: 0 north (+z), 1 east (+x), 2 south,
// 3 west.
type Heading uint8

var headings = [4][2]float64{{0, 1}, {1, 0}, {0, -1}, {-1, 0}}

// Route returns a shortest path from one position to within threshold of another, in
// steps of the given length to north, east, south and west. Ties are always resolved
// the same way. ok is false if there is no path; from a start within threshold the path
// has no steps.
func (s *Scene) Route(x, z, tx, tz, step, threshold float64) (way []Heading, ok bool) {
	if !s.Free(x, z) || !(step > 0) {
		return nil, false
	}
	// Cell (i, j) of the lattice is the position (x + i·step, z + j·step).
	steps := math.Ceil(max(s.hi.X-s.lo.X, s.hi.Z-s.lo.Z) / step)
	if !(steps < maxLattice/2) {
		return nil, false
	}
	reach := int(steps) + 1
	side := 2*reach + 1
	from := make([]int8, side*side) // 1 + heading of the step that led there, −1 for the start
	start := reach*side + reach
	from[start] = -1
	for queue := []int{start}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		i, j := at%side-reach, at/side-reach
		px, pz := x+float64(i)*step, z+float64(j)*step
		if math.Hypot(px-tx, pz-tz) <= threshold {
			return trace(from, at, side), true
		}
		for h, d := range headings {
			ni, nj := i+int(d[0]), j+int(d[1])
			if max(ni, -ni, nj, -nj) > reach {
				continue
			}
			next := (nj+reach)*side + ni + reach
			if from[next] == 0 && s.clear(px, pz, px+d[0]*step, pz+d[1]*step) {
				from[next] = int8(h) + 1
				queue = append(queue, next)
			}
		}
	}
	return nil, false
}

// maxLattice bounds the side of the lattice that Route searches.
const maxLattice = 4001

// trace reconstructs the path from its end.
func trace(from []int8, at, side int) []Heading {
	var way []Heading
	for from[at] > 0 {
		h := Heading(from[at] - 1)
		way = append(way, h)
		at -= int(headings[h][1])*side + int(headings[h][0])
	}
	slices.Reverse(way)
	return way
}
