package draw

import "math"

// polyline is a flattened part of a path.
type polyline struct {
	points []point
	corner []bool // whether the path bends there; not inside a curve
	closed bool
}

// Bounds of the lines that a curve and a path become. A path that reaches its
// bound continues with one line for each curve.
const (
	maxPieces = 128
	maxPoints = 1 << 16
)

// flatten turns a path into lines that are nowhere farther from it than about
// tolerance, in the path's own units.
func (p *path) flatten(tolerance float64) []polyline {
	return p.flattened(func(from, a, b, to point) int { return pieces(from, a, b, to, tolerance) })
}

// flattened turns a path into lines, as many for each curve as count says.
func (p *path) flattened(count func(from, a, b, to point) int) []polyline {
	var lines []polyline
	var now polyline
	end := func(closed bool) {
		if len(now.points) > 0 {
			now.closed = closed
			lines = append(lines, now)
		}
		now = polyline{}
	}
	add := func(q point, corner bool) {
		now.points, now.corner = append(now.points, q), append(now.corner, corner)
	}
	i, total := 0, 0
	for _, v := range p.verbs {
		switch v {
		case moveTo:
			end(false)
			add(p.points[i], true)
			i++
		case lineTo:
			add(p.points[i], true)
			i++
		case cubeTo:
			from := now.points[len(now.points)-1]
			a, b, to := p.points[i], p.points[i+1], p.points[i+2]
			n := count(from, a, b, to)
			if total += n; total > maxPoints {
				n = 1
			}
			for k := 1; k < n; k++ {
				add(cubeAt(from, a, b, to, float64(k)/float64(n)), false)
			}
			add(to, true)
			i += 3
		case closing:
			end(true)
		}
	}
	end(false)
	return lines
}

// pieces is how many lines of equal parameter length keep a cubic within the
// tolerance: the error of n is at most 3/4·D/n², D being the larger of its second
// differences.
func pieces(from, a, b, to point, tolerance float64) int {
	n := math.Ceil(math.Sqrt(0.75 * bend(from, a, b, to) / tolerance))
	if !(n >= 1) {
		return 1
	}
	return int(min(n, maxPieces))
}

// halvings is pieces as the original renderer counts them: it halves a curve until
// the control points are within tolerance of its ends' line. Dashes are measured
// along these lines.
func halvings(from, a, b, to point, tolerance float64) int {
	d, n := bend(from, a, b, to), 1
	for float64(n*n)*tolerance < d && n < maxPieces {
		n *= 2
	}
	return n
}

// bend is how far a curve is from a line: the largest second difference of its points.
func bend(from, a, b, to point) float64 {
	return max(from.add(b).sub(a.mul(2)).length(), a.add(to).sub(b.mul(2)).length())
}

func cubeAt(p0, p1, p2, p3 point, t float64) point {
	s := 1 - t
	a, b, c, d := s*s*s, 3*s*s*t, 3*s*t*t, t*t*t
	return point{a*p0.x + b*p1.x + c*p2.x + d*p3.x, a*p0.y + b*p1.y + c*p2.y + d*p3.y}
}

// slopeAt is the derivative of a cubic, but for a factor.
func slopeAt(p0, p1, p2, p3 point, t float64) point {
	s := 1 - t
	return p1.sub(p0).mul(s * s).add(p2.sub(p1).mul(2 * s * t)).add(p3.sub(p2).mul(t * t))
}
