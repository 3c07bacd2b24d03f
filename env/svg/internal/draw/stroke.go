package draw

import "math"

// pen is how an outline is stroked, in user units.
type pen struct {
	width      float64
	cap        string // butt, round, square
	join       string // miter, round, bevel
	miterLimit float64
	dashes     []float64
	dashOffset float64
}

// roundStep is the largest angle between two points of a round piece that keeps
// the tolerance, in user units.
func (pn pen) roundStep(tolerance float64) float64 {
	if half := pn.width / 2; tolerance < half {
		return max(2*math.Acos(1-tolerance/half), 2*math.Pi/128)
	}
	return math.Pi / 2
}

// fan appends an arc around p in steps of at most the given angle; |turn| is at
// most a full turn.
func fan(to []point, p point, first, turn, radius, step float64) []point {
	n := max(1, int(math.Ceil(math.Abs(turn)/step)))
	for i := range n + 1 {
		to = append(to, p.add(polar(first+turn*float64(i)/float64(n), radius)))
	}
	return to
}

// Bounds of the dashes of one line. One without length gets a little, so that its
// caps have a direction.
const (
	maxDashes = 4096
	minDash   = 1e-6
)

// pattern returns the lengths of dashes and gaps, an even number, and their sum;
// ok is false for a stroke without dashes.
func (pn pen) pattern() (pattern []float64, total float64, ok bool) {
	pattern = pn.dashes
	if len(pattern)%2 == 1 {
		pattern = append(append([]float64(nil), pattern...), pattern...)
	}
	for _, d := range pattern {
		total += d
	}
	return pattern, total, total > 0 && finite(total, pn.dashOffset)
}

// dashed cuts a line into its dashes; without a pattern it is the line itself.
func (pn pen) dashed(l polyline) []polyline {
	pattern, total, ok := pn.pattern()
	if !ok {
		return []polyline{l}
	}
	i, left := 0, math.Mod(pn.dashOffset, total)
	if left < 0 {
		left += total
	}
	for left >= pattern[i] && left > 0 {
		left -= pattern[i]
		i = (i + 1) % len(pattern)
	}
	return cut(l, pattern, i, pattern[i]-left)
}

// cut walks along the line with dash i of the pattern, of which left remains. Where
// a closed line ends in a dash and starts with one, they are joined.
func cut(l polyline, pattern []float64, i int, left float64) []polyline {
	points, corners := l.points, l.corner
	if l.closed {
		points, corners = append(append([]point(nil), points...), points[0]), append(append([]bool(nil), corners...), true)
	}
	var out []polyline
	inDash := i%2 == 0
	now := polyline{points: []point{points[0]}, corner: []bool{true}}
	for k := 1; k < len(points); k++ {
		a, b := points[k-1], points[k]
		rest := b.sub(a).length()
		for rest > left && len(out) < maxDashes {
			a = between(a, b, left/rest)
			rest -= left
			if i%2 == 0 {
				now.points, now.corner = append(now.points, a), append(now.corner, true)
				out = append(out, now)
			}
			i = (i + 1) % len(pattern)
			left = max(pattern[i], minDash)
			now = polyline{points: []point{a}, corner: []bool{true}}
		}
		left -= rest
		now.points, now.corner = append(now.points, b), append(now.corner, corners[k])
	}
	switch {
	case i%2 != 0 || len(now.points) < 2:
	case l.closed && inDash && len(out) == 0:
		return []polyline{l}
	case l.closed && inDash:
		out[0].points, out[0].corner = append(now.points, out[0].points[1:]...), append(now.corner, out[0].corner[1:]...)
	default:
		out = append(out, now)
	}
	return out
}
