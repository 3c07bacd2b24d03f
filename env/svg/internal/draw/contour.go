package draw

import (
	"math"
	"slices"
)

// contour strokes a path, or each of its dashes, as the original renderer's library,
// cairo, does with paths: as the outline of its two sides. In tight bends the inner side
// runs backwards, which may leave holes that a union of pieces would not have.
type contour struct {
	pen
	half        float64
	arc         float64 // largest angle between two points of a round piece
	fine        float64 // tolerance of curves, in user units
	m           matrix  // to pixels; the miter limit holds there
	emit        func(outline []point) bool
	left, right []point // of the current part
	first, last heading
	drawn       bool // the current part has a command after its move
	points      int
	over        bool // emit wants no more
}

// heading is a place on the path and its direction there; zero before there is one.
type heading struct{ at, dir point }

// outline calls emit with the outlines of the stroke of a path, to be filled by
// the non-zero rule, and continues while it returns true. fine is the tolerance in
// user units.
func (pn pen) outline(p *path, m matrix, fine float64, emit func(outline []point) bool) {
	c, ok := pn.contour(m, fine, emit)
	if !ok {
		return
	}
	i := 0
	for _, v := range p.verbs {
		switch v {
		case moveTo:
			c.open()
			c.first, c.last = heading{}, heading{at: p.points[i]}
			i++
		case lineTo:
			c.line(p.points[i])
			i++
		case cubeTo:
			c.curve(p.points[i], p.points[i+1], p.points[i+2])
			i += 3
		case closing:
			c.close()
		}
		if c.over {
			return
		}
	}
	c.open()
}

// dashWork is what cutting a dash counts as, in crossings.
const dashWork = 10

// dash is outline for the dashes of lines. Cutting them is work, too, which spend allows or not: where numbers are so
// large that a dash does not change them, no outline comes of it.
func (pn pen) dash(
	lines []polyline, m matrix, fine float64, spend func(work int) bool, emit func(outline []point) bool,
) {
	c, ok := pn.contour(m, fine, emit)
	if !ok {
		return
	}
	for _, l := range lines {
		dashes := pn.dashed(l)
		if !spend(dashWork * len(dashes)) {
			return
		}
		for _, d := range dashes {
			c.first, c.last = heading{}, heading{at: d.points[0]}
			for i, p := range d.points[1:] {
				c.straight(p, d.corner[i])
			}
			if d.closed {
				c.close()
			} else {
				c.open()
			}
			if c.over {
				return
			}
		}
	}
}

func (pn pen) contour(m matrix, fine float64, emit func(outline []point) bool) (c contour, ok bool) {
	c = contour{pen: pn, half: pn.width / 2, arc: pn.roundStep(fine), fine: fine, m: m, emit: emit}
	return c, c.half > 0 && finite(c.half)
}

func (c *contour) begun() bool { return c.first.dir != point{} }

// side returns the offset to the left side of a heading.
func (c *contour) side(f heading) point { return f.dir.left().mul(c.half) }

// add continues both sides at f.
func (c *contour) add(f heading) {
	side := c.side(f)
	c.left, c.right = append(c.left, f.at.add(side)), append(c.right, f.at.sub(side))
	c.last = f
}

// enter turns the path into the direction of f, which starts where it is.
func (c *contour) enter(f heading) {
	if c.begun() {
		c.join(c.last, f)
		c.last = f
		return
	}
	c.first = f
	c.add(f)
}

func (c *contour) line(to point) { c.straight(to, true) }

// straight continues to a point. Without a corner it is a part of a curve.
func (c *contour) straight(to point, corner bool) {
	c.drawn = true
	dir, ok := to.sub(c.last.at).unit()
	if !ok || to.sub(c.last.at).length() < 1e-9 {
		return
	}
	if from := (heading{c.last.at, dir}); corner || !c.begun() {
		c.enter(from)
	} else {
		c.bend(from)
	}
	c.add(heading{to, dir})
}

// direction is the first of the vectors that has one.
func direction(vectors ...point) (point, bool) {
	for _, v := range vectors {
		if dir, ok := v.unit(); ok && v.length() >= 1e-9 {
			return dir, true
		}
	}
	return point{}, false
}

func (c *contour) curve(a, b, to point) {
	from := c.last.at
	start, ok := direction(a.sub(from), b.sub(from), to.sub(from))
	end, _ := direction(to.sub(b), to.sub(a), to.sub(from))
	if !ok || end == (point{}) {
		c.line(to)
		return
	}
	c.drawn = true
	c.enter(heading{from, start})
	n := pieces(from, a, b, to, c.fine)
	if c.points += n; c.points > maxPoints {
		n = 1
	}
	for k := 1; k < n; k++ {
		t := float64(k) / float64(n)
		f := heading{at: cubeAt(from, a, b, to, t)}
		if f.dir, ok = direction(slopeAt(from, a, b, to, t)); ok {
			c.bend(f)
		}
	}
	c.bend(heading{to, end})
}

// bend continues a curve. On the outer side of a sharp turn it is round.
func (c *contour) bend(f heading) {
	if turn := angle(c.last.dir, f.dir); math.Abs(turn) > c.arc {
		c.add(heading{f.at, c.last.dir})
		c.round(f.at, c.last, turn)
	}
	c.add(f)
}

// angle is how far one direction turns to the other, in −π..π.
func angle(in, out point) float64 { return math.Atan2(in.cross(out), in.dot(out)) }

// round appends an arc to the outer side of a turn at p.
func (c *contour) round(p point, in heading, turn float64) {
	side, outer := c.side(in), &c.left
	if turn < 0 {
		side, outer = side.mul(-1), &c.right
	}
	*outer = fan(*outer, p, math.Atan2(side.y, side.x), turn, c.half, c.arc)
}

// join bends both sides where one segment ends and the next one starts: the inner
// side by way of the middle, the outer one as the style says.
func (c *contour) join(in, out heading) {
	turn := angle(in.dir, out.dir)
	if math.Abs(turn) < 1e-6 {
		return
	}
	outer, inner := &c.left, &c.right
	from, to := c.side(in), c.side(out)
	if turn < 0 {
		outer, inner, from, to = inner, outer, from.mul(-1), to.mul(-1)
	}
	switch {
	case c.pen.join == "round":
		c.round(in.at, in, turn)
	case c.pen.join != "bevel" && c.pen.mitered(in.dir, out.dir, c.m):
		middle, _ := from.add(to).unit()
		*outer = append(*outer, in.at.add(middle.mul(c.half/math.Cos(turn/2))))
	}
	*outer = append(*outer, out.at.add(to))
	*inner = append(*inner, in.at, out.at.sub(to))
}

// mitered reports whether a bend keeps the miter limit, which cairo applies to
// directions in pixels.
func (pn pen) mitered(in, out point, m matrix) bool {
	in, okIn := m.direction(in).unit()
	out, okOut := m.direction(out).unit()
	limit := max(pn.miterLimit, 1)
	return okIn && okOut && 2 <= limit*limit*(1+in.dot(out)) && in.dot(out) > -1
}

// close ends a part where it started.
func (c *contour) close() {
	if c.begun() {
		start := c.first.at
		c.line(start)
		c.join(c.last, c.first)
		c.send(c.left)
		c.send(reversed(c.right))
	} else {
		c.dot()
	}
	c.reset()
}

// open ends a part with caps.
func (c *contour) open() {
	if c.begun() {
		outline := c.end(c.left, c.last)
		outline = append(outline, reversed(c.right)...)
		c.send(c.end(outline, heading{c.first.at, c.first.dir.mul(-1)}))
	} else {
		c.dot()
	}
	c.reset()
}

func (c *contour) reset() {
	c.left, c.right, c.drawn = c.left[:0], c.right[:0], false
	c.last, c.first = heading{at: c.first.at}, heading{}
}

// dot draws a part without length, of which round caps alone remain.
func (c *contour) dot() {
	if c.drawn && c.cap == "round" {
		c.send(fan(nil, c.last.at, 0, 2*math.Pi, c.half, c.arc))
	}
}

// end appends the cap at f, which points outwards.
func (c *contour) end(outline []point, f heading) []point {
	side := c.side(f)
	switch c.cap {
	case "round":
		return fan(outline, f.at, math.Atan2(side.y, side.x), math.Pi, c.half, c.arc)
	case "square":
		tip := f.at.add(f.dir.mul(c.half))
		return append(outline, tip.add(side), tip.sub(side))
	}
	return outline
}

func (c *contour) send(outline []point) { c.over = c.over || !c.emit(outline) }

func reversed(points []point) []point {
	out := slices.Clone(points)
	slices.Reverse(out)
	return out
}
