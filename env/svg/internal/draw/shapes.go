package draw

import "math"

// outline returns the path of a shape in user units; ok is false for an element
// that is not a shape or draws nothing, and when too much has been drawn.
func (r *renderer) outline(n *node, v viewport) (path, bool) {
	p, ok := r.outlined(n, v)
	return p, r.spend(outlineWork*len(p.points)) && ok
}

// outlineWork is what reading a point counts as, in crossings.
const outlineWork = 10

func (r *renderer) outlined(n *node, v viewport) (path, bool) {
	get := func(name string, along axis) float64 { return v.lengthOr(n.attr(name), along, 0) }
	switch n.name {
	case "path":
		p, _ := parsePath(n.attr("d"), r.limits.Segments)
		return p, len(p.verbs) > 0
	case "rect":
		rx, ry := corners(n, v)
		return rectangle(get("x", horizontal), get("y", vertical), get("width", horizontal), get("height", vertical), rx, ry)
	case "circle":
		radius := get("r", diagonal)
		return oval(get("cx", horizontal), get("cy", vertical), radius, radius)
	case "ellipse":
		return oval(get("cx", horizontal), get("cy", vertical), get("rx", horizontal), get("ry", vertical))
	case "line":
		var p path
		p.move(point{get("x1", horizontal), get("y1", vertical)})
		p.line(point{get("x2", horizontal), get("y2", vertical)})
		return p, true
	case "polyline", "polygon":
		return polygon(numbers(n.attr("points"), 2*r.limits.Segments), n.name == "polygon")
	}
	return path{}, false
}

// corners returns the radii of a rectangle's corners; one that is missing is as
// large as the other.
func corners(n *node, v viewport) (rx, ry float64) {
	rx, okX := v.length(n.attr("rx"), horizontal)
	ry, okY := v.length(n.attr("ry"), vertical)
	switch {
	case !okX:
		rx = ry
	case !okY:
		ry = rx
	}
	return max(rx, 0), max(ry, 0)
}

// cornerReach is how far the control points of a rounded corner lie from its ends,
// in radii.
const cornerReach = 4 * (math.Sqrt2 - 1) / 3

func rectangle(x, y, w, h, rx, ry float64) (p path, ok bool) {
	if !(w > 0 && h > 0) || !finite(x, y, w, h) {
		return p, false
	}
	rx, ry = min(rx, w/2), min(ry, h/2)
	if rx == 0 || ry == 0 {
		p.move(point{x, y})
		p.line(point{x + w, y})
		p.line(point{x + w, y + h})
		p.line(point{x, y + h})
		p.close()
		return p, true
	}
	// Every other corner bulges a little less than an ellipse, as the original
	// renderer has them.
	cx, cy := cornerReach*rx, cornerReach*ry
	p.move(point{x + rx, y})
	p.line(point{x + w - rx, y})
	p.cube(point{x + w - rx + cx, y}, point{x + w, y + cy}, point{x + w, y + ry})
	p.line(point{x + w, y + h - ry})
	p.cube(point{x + w, y + h - ry + cy}, point{x + w - rx + cx, y + h}, point{x + w - rx, y + h})
	p.line(point{x + rx, y + h})
	p.cube(point{x + rx - cx, y + h}, point{x, y + h - cy}, point{x, y + h - ry})
	p.line(point{x, y + ry})
	p.cube(point{x, y + ry - cy}, point{x + rx - cx, y}, point{x + rx, y})
	p.close()
	return p, true
}

func oval(cx, cy, rx, ry float64) (p path, ok bool) {
	if !(rx > 0 && ry > 0) || !finite(cx, cy, rx, ry) {
		return p, false
	}
	p.move(point{cx + rx, cy})
	p.ellipse(point{cx, cy}, rx, ry, 0, 1, 0, 2*math.Pi, point{cx + rx, cy})
	p.close()
	return p, true
}

func polygon(v []float64, closed bool) (p path, ok bool) {
	if len(v) < 4 {
		return p, false
	}
	p.move(point{v[0], v[1]})
	for i := 2; i+1 < len(v); i += 2 {
		p.line(point{v[i], v[i+1]})
	}
	if closed {
		p.close()
	}
	return p, true
}
