package draw

import (
	"math"
	"slices"
	"strings"

	"vagen/internal/floats"
)

// point is a place in user units or pixels, x to the right and y down.
type point struct{ x, y float64 }

func (p point) add(q point) point         { return point{p.x + q.x, p.y + q.y} }
func (p point) sub(q point) point         { return point{p.x - q.x, p.y - q.y} }
func (p point) mul(k float64) point       { return point{p.x * k, p.y * k} }
func (p point) length() float64           { return math.Hypot(p.x, p.y) }
func (p point) cross(q point) float64     { return p.x*q.y - p.y*q.x }
func (p point) dot(q point) float64       { return p.x*q.x + p.y*q.y }
func between(p, q point, t float64) point { return point{p.x + (q.x-p.x)*t, p.y + (q.y-p.y)*t} }
func (p point) left() point               { return point{p.y, -p.x} }
func (p point) unit() (point, bool)       { n := p.length(); return p.mul(1 / n), n > 0 && !math.IsInf(n, 0) }
func polar(angle, radius float64) point {
	s, c := math.Sincos(angle)
	return point{c * radius, s * radius}
}
func finite(values ...float64) bool {
	return !slices.ContainsFunc(values, func(v float64) bool { return !floats.Finite(v) })
}

// matrix maps (x, y) to (a·x + c·y + e, b·x + d·y + f), as SVG writes it.
type matrix struct{ a, b, c, d, e, f float64 }

var identity = matrix{a: 1, d: 1}

func translation(x, y float64) matrix { return matrix{1, 0, 0, 1, x, y} }
func scaling(x, y float64) matrix     { return matrix{x, 0, 0, y, 0, 0} }

// then returns the matrix that first applies n and then m, as nested elements do.
func (m matrix) then(n matrix) matrix {
	return matrix{
		m.a*n.a + m.c*n.b, m.b*n.a + m.d*n.b,
		m.a*n.c + m.c*n.d, m.b*n.c + m.d*n.d,
		m.a*n.e + m.c*n.f + m.e, m.b*n.e + m.d*n.f + m.f,
	}
}

func (m matrix) apply(p point) point {
	return point{m.a*p.x + m.c*p.y + m.e, m.b*p.x + m.d*p.y + m.f}
}

// direction maps a vector rather than a place.
func (m matrix) direction(p point) point { return point{m.a*p.x + m.c*p.y, m.b*p.x + m.d*p.y} }

// inverse reports false for a matrix that flattens the plane.
func (m matrix) inverse() (matrix, bool) {
	det := m.a*m.d - m.b*m.c
	if !finite(det) || math.Abs(det) < 1e-18 {
		return identity, false
	}
	inv := matrix{m.d / det, -m.b / det, -m.c / det, m.a / det, 0, 0}
	inv.e, inv.f = -(inv.a*m.e + inv.c*m.f), -(inv.b*m.e + inv.d*m.f)
	return inv, true
}

func (m matrix) finite() bool { return finite(m.a, m.b, m.c, m.d, m.e, m.f) }

// transforms bounds the functions read of one attribute.
const maxTransforms = 64

// parseTransform reads a list such as "translate(4,6) rotate(20)". It stops at
// the first unknown token and keeps the transforms before it.
func parseTransform(text string) matrix {
	m := identity
	for range maxTransforms {
		name, rest, ok := strings.Cut(text, "(")
		if !ok {
			break
		}
		args, tail, ok := strings.Cut(rest, ")")
		if !ok {
			break
		}
		one, ok := transform(strings.Trim(name, ", \t\r\n"), numbers(args, 6))
		if !ok {
			break
		}
		m, text = m.then(one), tail
	}
	if !m.finite() {
		return identity
	}
	return m
}

func transform(name string, v []float64) (matrix, bool) {
	n := len(v)
	switch {
	case name == "matrix" && n == 6:
		return matrix{v[0], v[1], v[2], v[3], v[4], v[5]}, true
	case name == "translate" && n == 1:
		return translation(v[0], 0), true
	case name == "translate" && n >= 2:
		return translation(v[0], v[1]), true
	case name == "scale" && n == 1:
		return scaling(v[0], v[0]), true
	case name == "scale" && n >= 2:
		return scaling(v[0], v[1]), true
	case name == "rotate" && n >= 1:
		s, c := math.Sincos(v[0] * math.Pi / 180)
		m := matrix{c, s, -s, c, 0, 0}
		if n >= 3 {
			m = translation(v[1], v[2]).then(m).then(translation(-v[1], -v[2]))
		}
		return m, true
	case name == "skewX" && n >= 1:
		return matrix{1, 0, math.Tan(v[0] * math.Pi / 180), 1, 0, 0}, true
	case name == "skewY" && n >= 1:
		return matrix{1, math.Tan(v[0] * math.Pi / 180), 0, 1, 0, 0}, true
	}
	return identity, false
}
