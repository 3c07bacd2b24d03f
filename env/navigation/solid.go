package navigation

import (
	"image/color"
	"math"
)

// vec is a place or direction in metres: x to the east, y up, z to the north.
type vec struct{ x, y, z float64 }

func (a vec) add(b vec) vec     { return vec{a.x + b.x, a.y + b.y, a.z + b.z} }
func (a vec) sub(b vec) vec     { return vec{a.x - b.x, a.y - b.y, a.z - b.z} }
func (a vec) mul(k float64) vec { return vec{a.x * k, a.y * k, a.z * k} }
func (a vec) dot(b vec) float64 { return a.x*b.x + a.y*b.y + a.z*b.z }
func (a vec) unit() vec         { return a.mul(1 / math.Sqrt(a.dot(a))) }

// solid is a form that fills a box.
type solid struct {
	form   form
	lo, hi vec
	color  color.RGBA
	object int // its object in the scene
}

// hit returns how far along a ray, in lengths of dir, the solid is met, and the
// normal there; ok is false when it is missed, or when the ray starts inside.
func (s *solid) hit(from, dir vec) (t float64, normal vec, ok bool) {
	switch s.form {
	case globe:
		return s.hitGlobe(from, dir)
	case tube:
		return s.hitTube(from, dir)
	}
	return s.hitBox(from, dir)
}

// hitBox cuts the ray with the three pairs of planes.
func (s *solid) hitBox(from, dir vec) (t float64, normal vec, ok bool) {
	near, far := math.Inf(-1), math.Inf(1)
	for i, c := range [3]struct{ from, dir, lo, hi float64 }{
		{from.x, dir.x, s.lo.x, s.hi.x}, {from.y, dir.y, s.lo.y, s.hi.y}, {from.z, dir.z, s.lo.z, s.hi.z},
	} {
		if c.dir == 0 {
			if c.from < c.lo || c.from > c.hi {
				return 0, vec{}, false
			}
			continue
		}
		a, b := (c.lo-c.from)/c.dir, (c.hi-c.from)/c.dir
		side := -1.0
		if a > b {
			a, b, side = b, a, 1
		}
		if a > near {
			near = a
			normal = [3]vec{{side, 0, 0}, {0, side, 0}, {0, 0, side}}[i]
		}
		far = min(far, b)
	}
	return near, normal, near <= far && near > 0
}

// round brings the ray into the frame where the solid is a ball, or a tube, of
// radius 1 around the origin.
func (s *solid) round(from, dir vec) (f, d, half vec) {
	half = s.hi.sub(s.lo).mul(0.5)
	f = from.sub(s.lo.add(half))
	return vec{f.x / half.x, f.y / half.y, f.z / half.z}, vec{dir.x / half.x, dir.y / half.y, dir.z / half.z}, half
}

func (s *solid) hitGlobe(from, dir vec) (t float64, normal vec, ok bool) {
	f, d, half := s.round(from, dir)
	a, b, c := d.dot(d), f.dot(d), f.dot(f)-1
	root := b*b - a*c
	if root < 0 || c < 0 {
		return 0, vec{}, false
	}
	t = (-b - math.Sqrt(root)) / a
	p := f.add(d.mul(t))
	return t, vec{p.x / half.x, p.y / half.y, p.z / half.z}.unit(), t > 0
}

func (s *solid) hitTube(from, dir vec) (t float64, normal vec, ok bool) {
	f, d, half := s.round(from, dir)
	// The mantle.
	a, b, c := d.x*d.x+d.z*d.z, f.x*d.x+f.z*d.z, f.x*f.x+f.z*f.z-1
	if root := b*b - a*c; root >= 0 && a > 0 {
		t = (-b - math.Sqrt(root)) / a
		if y := f.y + t*d.y; t > 0 && y >= -1 && y <= 1 {
			return t, vec{(f.x + t*d.x) / half.x, 0, (f.z + t*d.z) / half.z}.unit(), true
		}
	}
	// The end that faces the eye.
	if d.y == 0 {
		return 0, vec{}, false
	}
	end := math.Copysign(1, -d.y)
	t = (end - f.y) / d.y
	x, z := f.x+t*d.x, f.z+t*d.z
	return t, vec{0, end, 0}, t > 0 && x*x+z*z <= 1
}
