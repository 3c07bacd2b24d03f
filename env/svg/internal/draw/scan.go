package draw

import (
	"cmp"
	"math"
	"slices"
)

// samples is how many lines a row of pixels is cut into. Along x coverage is
// exact, along y it comes in steps of 1/samples.
const samples = 16

// reach bounds coordinates in pixels, far outside of any picture.
const reach = 1 << 20

// edge is a line between sample lines, downwards.
type edge struct {
	first, last int     // sample lines crossed: first ≤ k < last
	x, slope    float64 // where the next sample line is crossed, and the step to the following one
	wind        int8    // +1 when the outline goes down there, −1 when up
}

// scanner finds the coverage of pixels by outlines. It is reused from shape to
// shape.
type scanner struct {
	width, height int
	edges         []edge
	active        []edge
	part, run     []float32 // of the row: covered parts of single pixels, and changes of full coverage
	cover         []uint8
	left, right   int // pixels of the row that may be covered
}

func newScanner(width, height int) *scanner {
	return &scanner{width: width, height: height,
		part: make([]float32, width+1), run: make([]float32, width+1), cover: make([]uint8, width)}
}

// add takes in a closed outline in pixels; the last point is joined to the first.
func (s *scanner) add(outline []point) {
	if len(outline) < 2 {
		return
	}
	prev := clamp(outline[len(outline)-1])
	for _, p := range outline {
		p = clamp(p)
		s.line(prev, p)
		prev = p
	}
}

func clamp(p point) point {
	bound := func(v float64) float64 {
		if v != v {
			return 0
		}
		return min(max(v, -reach), reach)
	}
	return point{bound(p.x), bound(p.y)}
}

func (s *scanner) line(a, b point) {
	wind := int8(1)
	if a.y > b.y {
		a, b, wind = b, a, -1
	}
	// Sample line k lies at y = (k + 1/2) / samples.
	first := int(max(math.Ceil(a.y*samples-0.5), 0))
	last := int(min(math.Ceil(b.y*samples-0.5), float64(s.height*samples)))
	if first >= last {
		return
	}
	slope := (b.x - a.x) / (b.y - a.y)
	y := (float64(first) + 0.5) / samples
	s.edges = append(s.edges, edge{first: first, last: last, x: a.x + (y-a.y)*slope, slope: slope / samples, wind: wind})
}

// cost is the number of crossings that drawing will visit.
func (s *scanner) cost() int {
	n := 0
	for _, e := range s.edges {
		n += e.last - e.first
	}
	return n
}

// fill calls emit with the coverage of each row that has any: cover[i] belongs to
// the pixel x0+i and is 255 for full coverage. It forgets the outlines.
func (s *scanner) fill(evenOdd bool, emit func(y, x0 int, cover []uint8)) {
	slices.SortFunc(s.edges, func(a, b edge) int { return cmp.Compare(a.first, b.first) })
	next := 0
	s.active = s.active[:0]
	for next < len(s.edges) || len(s.active) > 0 {
		k := s.edges[min(next, len(s.edges)-1)].first
		if len(s.active) > 0 {
			k = s.active[0].first // active edges keep the line that comes next here
		}
		row := k / samples
		s.left, s.right = s.width, 0
		for ; k < (row+1)*samples; k++ {
			for next < len(s.edges) && s.edges[next].first == k {
				s.active = append(s.active, s.edges[next])
				next++
			}
			if len(s.active) == 0 {
				if next == len(s.edges) || s.edges[next].first >= (row+1)*samples {
					break
				}
				continue
			}
			s.sample(evenOdd)
			s.advance(k + 1)
		}
		if s.right > s.left {
			emit(row, s.left, s.finish())
		}
	}
	s.edges = s.edges[:0]
}

// sample adds what one sample line covers.
func (s *scanner) sample(evenOdd bool) {
	byX := func(a, b edge) int { return cmp.Compare(a.x, b.x) }
	if len(s.active) > 32 {
		slices.SortFunc(s.active, byX)
	} else { // nearly sorted since the last line
		for i := 1; i < len(s.active); i++ {
			for j := i; j > 0 && s.active[j].x < s.active[j-1].x; j-- {
				s.active[j], s.active[j-1] = s.active[j-1], s.active[j]
			}
		}
	}
	wind, from := 0, 0.0
	for i := range s.active {
		e := &s.active[i]
		was := inside(wind, evenOdd)
		wind += int(e.wind)
		switch is := inside(wind, evenOdd); {
		case is && !was:
			from = e.x
		case was && !is:
			s.span(from, e.x)
		}
	}
}

func inside(wind int, evenOdd bool) bool {
	if evenOdd {
		return wind&1 != 0
	}
	return wind != 0
}

// span covers the sample line from a to b.
func (s *scanner) span(a, b float64) {
	a, b = min(max(a, 0), float64(s.width)), min(max(b, 0), float64(s.width))
	if a >= b {
		return
	}
	i, j := int(a), int(b)
	if i == j {
		s.part[i] += float32(b - a)
	} else {
		s.part[i] += float32(float64(i+1) - a)
		s.run[i+1]++
		s.run[j]--
		s.part[j] += float32(b - float64(j))
	}
	s.left, s.right = min(s.left, i), max(s.right, min(j+1, s.width))
}

// advance drops edges that end and moves the others to sample line k.
func (s *scanner) advance(k int) {
	kept := 0
	for i := range s.active {
		e := &s.active[i]
		if e.last <= k {
			continue
		}
		e.x += e.slope
		e.first = k
		if kept < i {
			s.active[kept] = *e
		}
		kept++
	}
	s.active = s.active[:kept]
}

// finish turns what the row has gathered into coverage and clears it.
func (s *scanner) finish() []uint8 {
	var full float32
	for x := s.left; x < s.right; x++ {
		full += s.run[x]
		s.cover[x] = uint8(min((full+s.part[x])*(255.0/samples)+0.5, 255))
		s.run[x], s.part[x] = 0, 0
	}
	s.run[s.right], s.part[s.right] = 0, 0
	return s.cover[s.left:s.right]
}
