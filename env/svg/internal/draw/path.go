package draw

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// verb is what a segment of a path does.
type verb uint8

const (
	moveTo  verb = iota // one point
	lineTo              // one point
	cubeTo              // two control points and the end
	closing             // none
)

// path is an outline in user units.
type path struct {
	verbs  []verb
	points []point
	start  point // of the current part
	at     point
}

func (p *path) move(to point) {
	p.verbs, p.points = append(p.verbs, moveTo), append(p.points, to)
	p.start, p.at = to, to
}

func (p *path) line(to point) {
	p.open()
	p.verbs, p.points = append(p.verbs, lineTo), append(p.points, to)
	p.at = to
}

func (p *path) cube(a, b, to point) {
	p.open()
	p.verbs, p.points = append(p.verbs, cubeTo), append(p.points, a, b, to)
	p.at = to
}

// quad raises a curve with one control point by a degree.
func (p *path) quad(c, to point) {
	p.cube(between(p.at, c, 2.0/3), between(to, c, 2.0/3), to)
}

func (p *path) close() {
	if len(p.verbs) > 0 && p.verbs[len(p.verbs)-1] != closing {
		p.verbs = append(p.verbs, closing)
	}
	p.at = p.start
}

// open starts a part where the last one was closed.
func (p *path) open() {
	if len(p.verbs) == 0 || p.verbs[len(p.verbs)-1] == closing {
		p.move(p.at)
	}
}

// arc draws an elliptical arc as SVG 1.1, appendix F.6, prescribes, in pieces of
// at most a quarter turn. Radii that are too small grow until the arc fits.
func (p *path) arc(rx, ry, degrees float64, large, sweep bool, to point) {
	from := p.at
	rx, ry = math.Abs(rx), math.Abs(ry)
	if rx == 0 || ry == 0 || from == to || !finite(rx, ry, degrees) {
		p.line(to)
		return
	}
	sin, cos := math.Sincos(degrees * math.Pi / 180)
	half := from.sub(to).mul(0.5)
	x, y := cos*half.x+sin*half.y, cos*half.y-sin*half.x
	if grow := x*x/(rx*rx) + y*y/(ry*ry); grow > 1 {
		rx, ry = rx*math.Sqrt(grow), ry*math.Sqrt(grow)
	}
	under := rx*rx*y*y + ry*ry*x*x
	factor := math.Sqrt(max(0, rx*rx*ry*ry-under) / under)
	if large == sweep {
		factor = -factor
	}
	cx, cy := factor*rx*y/ry, -factor*ry*x/rx
	mid := between(from, to, 0.5)
	center := point{cos*cx - sin*cy + mid.x, sin*cx + cos*cy + mid.y}
	first := math.Atan2((y-cy)/ry, (x-cx)/rx)
	turn := math.Atan2((-y-cy)/ry, (-x-cx)/rx) - first
	switch {
	case sweep && turn < 0:
		turn += 2 * math.Pi
	case !sweep && turn > 0:
		turn -= 2 * math.Pi
	}
	if !finite(center.x, center.y, first, turn) {
		p.line(to)
		return
	}
	p.ellipse(center, rx, ry, sin, cos, first, turn, to)
}

// ellipse draws the part of an ellipse, turned by the angle of sin and cos, that
// starts at one parametric angle and covers turn.
func (p *path) ellipse(center point, rx, ry, sin, cos, first, turn float64, to point) {
	pieces := max(1, int(math.Ceil(math.Abs(turn)/(math.Pi/2)-1e-9)))
	step := turn / float64(pieces)
	reach := 4.0 / 3 * math.Tan(step/4)
	place := func(x, y float64) point {
		x, y = x*rx, y*ry
		return point{center.x + cos*x - sin*y, center.y + sin*x + cos*y}
	}
	for i := range pieces {
		a, b := first+float64(i)*step, first+float64(i+1)*step
		sa, ca := math.Sincos(a)
		sb, cb := math.Sincos(b)
		end := place(cb, sb)
		if i == pieces-1 {
			end = to
		}
		p.cube(place(ca-reach*sa, sa+reach*ca), place(cb+reach*sb, sb-reach*cb), end)
	}
}

// errPath says that path data is malformed.
var errPath = errors.New("invalid path data")

// arguments is how many numbers a command takes.
var arguments = map[byte]int{'M': 2, 'L': 2, 'H': 1, 'V': 1, 'C': 6, 'S': 4, 'Q': 4, 'T': 2, 'A': 7, 'Z': 0}

// pathReader reads the data of a path. Characters that are neither commands nor
// parts of numbers separate numbers, as in the library that decided in the
// original environment whether code is valid.
type pathReader struct {
	text    string
	pos     int
	path    path
	command byte // as written
	control point
	last    byte // upper case, the command before
}

// parsePath reads path data. With an error the path holds what was read before
// it. limit bounds the segments.
func parsePath(text string, limit int) (path, error) {
	r := pathReader{text: text}
	for {
		err := r.segment()
		if err == errEnd {
			return r.path, nil
		}
		if err == nil && len(r.path.verbs) > limit {
			err = fmt.Errorf("%w: it has more than %d segments: %w", errPath, limit, ErrLimit)
		}
		if err != nil {
			return r.path, err
		}
	}
}

var errEnd = errors.New("end of the path data")

// segment reads one command, or one more group of arguments of the last one.
func (r *pathReader) segment() error {
	next, ok := r.peek()
	if !ok {
		return errEnd
	}
	if next != 0 {
		r.command = next
		r.pos++
	} else if r.command == 0 {
		return fmt.Errorf("%w: byte %d: a number without a command", errPath, r.pos)
	}
	upper := r.command &^ 0x20
	v, err := r.group(upper)
	if err != nil {
		return err
	}
	r.draw(upper, r.command != upper, v)
	r.last = upper
	switch upper {
	case 'M': // further pairs are lines
		r.command-- // L comes before M
	case 'Z':
		r.command = 0
	}
	return nil
}

// peek skips to the next command, which it returns, or number, for which it
// returns 0. It reports false at the end.
func (r *pathReader) peek() (byte, bool) {
	for r.pos < len(r.text) {
		c := r.text[r.pos]
		if strings.IndexByte("MmZzLlHhVvCcSsQqTtAa", c) >= 0 {
			return c, true
		}
		if _, n := number(r.text[r.pos:]); n > 0 {
			return 0, true
		}
		r.pos++
	}
	return 0, false
}

// group reads the arguments of a command.
func (r *pathReader) group(upper byte) (v [7]float64, err error) {
	for i := range arguments[upper] {
		next, ok := r.peek()
		if !ok || next != 0 {
			return v, fmt.Errorf("%w: byte %d: %c takes %d numbers, found %d", errPath, r.pos, upper, arguments[upper], i)
		}
		var n int
		if v[i], n = number(r.text[r.pos:]); upper == 'A' && (i == 3 || i == 4) {
			// Flags are single digits that need no separator.
			if c := r.text[r.pos]; c == '0' || c == '1' {
				v[i], n = float64(c-'0'), 1
			}
		}
		r.pos += n
	}
	return v, nil
}

func (r *pathReader) draw(upper byte, relative bool, v [7]float64) {
	p := &r.path
	base := point{}
	if relative {
		base = p.at
	}
	at := func(i int) point { return base.add(point{v[i], v[i+1]}) }
	// mirrored is the control point that a smooth curve takes over.
	mirrored := func(after string) point {
		if strings.IndexByte(after, r.last) < 0 {
			return p.at
		}
		return p.at.mul(2).sub(r.control)
	}
	switch upper {
	case 'M':
		p.move(at(0))
	case 'L':
		p.line(at(0))
	case 'H':
		p.line(point{base.x + v[0], p.at.y})
	case 'V':
		p.line(point{p.at.x, base.y + v[0]})
	case 'C':
		r.control = at(2)
		p.cube(at(0), r.control, at(4))
	case 'S':
		first := mirrored("CS")
		r.control = at(0)
		p.cube(first, r.control, at(2))
	case 'Q':
		r.control = at(0)
		p.quad(r.control, at(2))
	case 'T':
		r.control = mirrored("QT")
		p.quad(r.control, at(0))
	case 'A':
		p.arc(v[0], v[1], v[2], v[3] != 0, v[4] != 0, at(5))
	case 'Z':
		p.close()
	}
}
