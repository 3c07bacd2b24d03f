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

// stroker covers a stroke of dashes with convex pieces: one for each line, join
// and cap. They overlap, and run around in either direction.
type stroker struct {
	pen
	half  float64
	arc   float64 // largest angle between two points of a round piece
	m     matrix  // to pixels
	emit  func(piece []point) bool
	piece []point
	over  bool // emit wants no more
}

// roundStep is the largest angle between two points of a round piece that keeps
// the tolerance, in user units.
func (pn pen) roundStep(tolerance float64) float64 {
	if half := pn.width / 2; tolerance < half {
		return max(2*math.Acos(1-tolerance/half), 2*math.Pi/128)
	}
	return math.Pi / 2
}

// pieces calls emit with the pieces of a dashed stroke of the lines, and continues
// while it returns true. tolerance is for round pieces, in user units. The piece
// passed to emit is reused.
func (pn pen) pieces(lines []polyline, m matrix, tolerance float64, emit func(piece []point) bool) {
	half := pn.width / 2
	if !(half > 0) || !finite(half) {
		return
	}
	s := stroker{pen: pn, half: half, m: m, emit: emit, arc: pn.roundStep(tolerance)}
	for _, l := range lines {
		for _, d := range pn.dashed(l) {
			if s.line(d); s.over {
				return
			}
		}
	}
}

func (s *stroker) flush() {
	s.over = s.over || !s.emit(s.piece)
	s.piece = s.piece[:0]
}

// line strokes one line with its joins and caps.
func (s *stroker) line(l polyline) {
	l = l.distinct()
	n := len(l.points)
	if n == 1 {
		s.dot(l.points[0])
		return
	}
	segments := n - 1
	if l.closed {
		segments = n
	}
	directions := make([]point, segments)
	for i := range segments {
		a, b := l.points[i], l.points[(i+1)%n]
		directions[i], _ = b.sub(a).unit()
		side := directions[i].left().mul(s.half)
		s.piece = append(s.piece, a.add(side), a.sub(side), b.sub(side), b.add(side))
		s.flush()
	}
	for i := 1; i < segments; i++ {
		s.join(l.points[i], directions[i-1], directions[i], l.corner[i])
	}
	if l.closed {
		s.join(l.points[0], directions[segments-1], directions[0], l.corner[0])
		return
	}
	s.end(l.points[0], directions[0].mul(-1))
	s.end(l.points[n-1], directions[segments-1])
}

// distinct drops points that equal the one before.
func (l polyline) distinct() polyline {
	out := polyline{closed: l.closed}
	for i, p := range l.points {
		if n := len(out.points); n > 0 && out.points[n-1].sub(p).length() < 1e-9 {
			out.corner[n-1] = out.corner[n-1] || l.corner[i]
			continue
		}
		out.points, out.corner = append(out.points, p), append(out.corner, l.corner[i])
	}
	if n := len(out.points); out.closed && n > 1 && out.points[n-1].sub(out.points[0]).length() < 1e-9 {
		out.points, out.corner = out.points[:n-1], out.corner[:n-1]
	}
	return out
}

// dot is a line without length: its round caps. A square cap needs a direction,
// and the original renderer draws none here.
func (s *stroker) dot(p point) {
	if s.cap == "round" {
		s.piece = fan(s.piece, p, 0, 2*math.Pi, s.half, s.arc)
		s.flush()
	}
}

// end draws the cap at p; outward is the direction in which the line ends.
func (s *stroker) end(p, outward point) {
	side := outward.left().mul(s.half)
	switch s.cap {
	case "round":
		s.piece = fan(s.piece, p, math.Atan2(side.y, side.x), math.Pi, s.half, s.arc)
		s.flush()
	case "square":
		tip := outward.mul(s.half)
		s.piece = append(s.piece, p.add(side), p.sub(side), p.sub(side).add(tip), p.add(side).add(tip))
		s.flush()
	}
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

// join fills the gap on the outer side of a bend at p. Where a curve was cut into
// lines it is always round.
func (s *stroker) join(p, in, out point, corner bool) {
	turn := angle(in, out)
	if math.Abs(turn) < 1e-6 {
		return
	}
	// The outer side is the left one, in the sense of left, when turning right.
	a, b := in.left().mul(s.half), out.left().mul(s.half)
	if turn < 0 {
		a, b = a.mul(-1), b.mul(-1)
	}
	kind := s.pen.join
	if !corner {
		kind = "round"
	}
	s.piece = append(s.piece, p)
	switch {
	case kind == "round":
		s.piece = fan(s.piece, p, math.Atan2(a.y, a.x), turn, s.half, s.arc)
	case kind != "bevel" && s.mitered(in, out, s.m):
		middle, _ := a.add(b).unit()
		s.piece = append(s.piece, p.add(a), p.add(middle.mul(s.half/math.Cos(turn/2))), p.add(b))
	default:
		s.piece = append(s.piece, p.add(a), p.add(b))
	}
	s.flush()
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
