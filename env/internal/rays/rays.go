// Package rays draws small scenes of simple solids by ray casting.
package rays

import (
	"fmt"
	"image/color"
	"math"
	"slices"
)

// Vec is a position or direction in metres: X to the right of an eye without yaw, Y up,
// Z ahead of it.
type Vec struct{ X, Y, Z float64 }

// V returns the vector of three numbers.
func V(x, y, z float64) Vec { return Vec{x, y, z} }

// Add, Sub, Mul, Dot and Unit are the usual operations.
func (a Vec) Add(b Vec) Vec     { return Vec{a.X + b.X, a.Y + b.Y, a.Z + b.Z} }
func (a Vec) Sub(b Vec) Vec     { return Vec{a.X - b.X, a.Y - b.Y, a.Z - b.Z} }
func (a Vec) Mul(k float64) Vec { return Vec{a.X * k, a.Y * k, a.Z * k} }
func (a Vec) Dot(b Vec) float64 { return a.X*b.X + a.Y*b.Y + a.Z*b.Z }
func (a Vec) Unit() Vec         { return a.Mul(1 / math.Sqrt(a.Dot(a))) }

// Form is the shape of a solid.
type Form uint8

// The forms.
const (
	Box   Form = iota
	Tube       // upright, round or oval
	Globe      // a ball, or an egg
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *Form) UnmarshalText(text []byte) error {
	i := slices.Index([]string{"box", "tube", "globe"}, string(text))
	if i < 0 {
		return fmt.Errorf("rays: form %q, must be box, tube or globe", text)
	}
	*f = Form(i)
	return nil
}

// Solid is a form that fills the box from Lo to Hi, turned by Yaw degrees around
// the upright axis through its middle, clockwise seen from above.
type Solid struct {
	Form   Form
	Lo, Hi Vec
	Yaw    float64
	Color  color.RGBA
	Object int // index of the object it belongs to
}

// Hit returns the distance to the solid along a ray, in lengths of dir, and the normal
// there; ok is false if the ray misses the solid or starts inside it.
func (s *Solid) Hit(from, dir Vec) (t float64, normal Vec, ok bool) {
	if s.Yaw != 0 {
		return s.hitTurned(from, dir)
	}
	switch s.Form {
	case Globe:
		return s.hitGlobe(from, dir)
	case Tube:
		return s.hitTube(from, dir)
	}
	return s.hitBox(from, dir)
}

// hitTurned turns the ray instead of the solid.
func (s *Solid) hitTurned(from, dir Vec) (t float64, normal Vec, ok bool) {
	straight := *s
	straight.Yaw = 0
	sin, cos := SinCos(s.Yaw)
	middle := s.Lo.Add(s.Hi).Mul(0.5)
	back := func(v Vec) Vec { return Vec{v.X*cos - v.Z*sin, v.Y, v.X*sin + v.Z*cos} }
	t, normal, ok = straight.Hit(back(from.Sub(middle)).Add(middle), back(dir))
	return t, Vec{normal.X*cos + normal.Z*sin, normal.Y, normal.Z*cos - normal.X*sin}, ok
}

// hitBox intersects the ray with the three pairs of planes.
func (s *Solid) hitBox(from, dir Vec) (t float64, normal Vec, ok bool) {
	near, far := math.Inf(-1), math.Inf(1)
	for i, c := range [3]struct{ from, dir, lo, hi float64 }{
		{from.X, dir.X, s.Lo.X, s.Hi.X}, {from.Y, dir.Y, s.Lo.Y, s.Hi.Y}, {from.Z, dir.Z, s.Lo.Z, s.Hi.Z},
	} {
		if c.dir == 0 {
			if c.from < c.lo || c.from > c.hi {
				return 0, Vec{}, false
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
			normal = [3]Vec{{side, 0, 0}, {0, side, 0}, {0, 0, side}}[i]
		}
		far = min(far, b)
	}
	return near, normal, near <= far && near > 0
}

// round transforms the ray to the frame in which the solid is a ball, or a tube, of
// radius 1 around the origin.
func (s *Solid) round(from, dir Vec) (f, d, half Vec) {
	half = s.Hi.Sub(s.Lo).Mul(0.5)
	f = from.Sub(s.Lo.Add(half))
	return Vec{f.X / half.X, f.Y / half.Y, f.Z / half.Z}, Vec{dir.X / half.X, dir.Y / half.Y, dir.Z / half.Z}, half
}

func (s *Solid) hitGlobe(from, dir Vec) (t float64, normal Vec, ok bool) {
	f, d, half := s.round(from, dir)
	a, b, c := d.Dot(d), f.Dot(d), f.Dot(f)-1
	root := b*b - a*c
	if root < 0 || c < 0 {
		return 0, Vec{}, false
	}
	t = (-b - math.Sqrt(root)) / a
	p := f.Add(d.Mul(t))
	return t, Vec{p.X / half.X, p.Y / half.Y, p.Z / half.Z}.Unit(), t > 0
}

func (s *Solid) hitTube(from, dir Vec) (t float64, normal Vec, ok bool) {
	f, d, half := s.round(from, dir)
	// The lateral surface.
	a, b, c := d.X*d.X+d.Z*d.Z, f.X*d.X+f.Z*d.Z, f.X*f.X+f.Z*f.Z-1
	if root := b*b - a*c; root >= 0 && a > 0 {
		t = (-b - math.Sqrt(root)) / a
		if y := f.Y + t*d.Y; t > 0 && y >= -1 && y <= 1 {
			return t, Vec{(f.X + t*d.X) / half.X, 0, (f.Z + t*d.Z) / half.Z}.Unit(), true
		}
	}
	// The end that faces the eye.
	if d.Y == 0 {
		return 0, Vec{}, false
	}
	end := math.Copysign(1, -d.Y)
	t = (end - f.Y) / d.Y
	x, z := f.X+t*d.X, f.Z+t*d.Z
	return t, Vec{0, end, 0}, t > 0 && x*x+z*z <= 1
}

// First returns the first solid that a ray hits and its distance, −1 if it hits none.
func First(solids []Solid, from, dir Vec) (index int, t float64) {
	index, t = -1, math.Inf(1)
	for i := range solids {
		if at, _, ok := solids[i].Hit(from, dir); ok && at < t {
			index, t = i, at
		}
	}
	return index, t
}

// SinCos is exact for multiples of 90 degrees.
func SinCos(degrees float64) (sin, cos float64) {
	if turns := degrees / 90; turns == math.Trunc(turns) && math.Abs(turns) < 1<<30 {
		switch (int(turns)%4 + 4) % 4 {
		case 0:
			return 0, 1
		case 1:
			return 1, 0
		case 2:
			return 0, -1
		}
		return -1, 0
	}
	return math.Sincos(degrees * math.Pi / 180)
}
