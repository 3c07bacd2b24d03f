package navigation

import "math"

// camera is the agent's eye.
type camera struct {
	at      vec
	yaw     float64 // degrees clockwise from north
	horizon float64 // degrees downwards
	fov     float64 // degrees, from edge to edge, both ways
}

// axes returns the directions forward, right and up, the latter two as long as
// half of the picture one metre ahead.
func (c camera) axes() (forward, right, up vec) {
	sy, cy := sinCos(c.yaw)
	sh, ch := sinCos(c.horizon)
	half := math.Tan(c.fov * math.Pi / 360)
	forward = vec{sy * ch, -sh, cy * ch}
	right = vec{cy, 0, -sy}.mul(half)
	up = vec{sy * sh, ch, cy * sh}.mul(half)
	return forward, right, up
}

// sinCos is exact for multiples of 90 degrees.
func sinCos(degrees float64) (sin, cos float64) {
	if turns := degrees / 90; turns == math.Trunc(turns) {
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

// project returns where a place lies in the picture, −1..1 to the right and up,
// and how far ahead it is; what is not ahead isn't in the picture.
func (c camera) project(p vec) (x, y, ahead float64) {
	forward, right, up := c.axes()
	d := p.sub(c.at)
	half := math.Tan(c.fov * math.Pi / 360)
	ahead = d.dot(forward)
	return d.dot(right) / (half * half * ahead), d.dot(up) / (half * half * ahead), ahead
}

// visibility is how far objects are seen, in metres, as in the original.
const visibility = 10

// sees reports whether an object is in the picture, near enough, and some of its
// middle not hidden.
func (c camera) sees(s *Scene, object int) bool {
	o := &s.objects[object]
	middle := vec{o.Center[0], o.Center[1], o.Center[2]}
	if d := middle.sub(c.at); d.dot(d) > visibility*visibility {
		return false
	}
	for _, shift := range [5]vec{{}, {0.3, 0, 0}, {-0.3, 0, 0}, {0, 0.3, 0}, {0, 0, 0.3}} {
		p := middle.add(vec{shift.x * o.Size[0], shift.y * o.Size[1], shift.z * o.Size[2]})
		x, y, ahead := c.project(p)
		if ahead <= 0.05 || math.Abs(x) > 1 || math.Abs(y) > 1 {
			continue
		}
		if s.first(c.at, p.sub(c.at)) == object {
			return true
		}
	}
	return false
}

// first returns the object that a ray meets first, −1 when it is a wall.
func (s *Scene) first(from, dir vec) int {
	nearest, object := math.Inf(1), -1
	for i := range s.solids {
		if t, _, ok := s.solids[i].hit(from, dir); ok && t < nearest {
			nearest, object = t, s.solids[i].object
		}
	}
	return object
}
