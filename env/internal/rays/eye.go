package rays

import "math"

// Eye is the camera of a picture.
type Eye struct {
	At    Vec
	Yaw   float64 // degrees clockwise, seen from above
	Pitch float64 // degrees downwards
	FOV   float64 // degrees, from edge to edge, both ways
}

// axes returns the directions forward, right and up; the length of the latter two is
// half of the picture's side at a distance of one metre.
func (e Eye) axes() (forward, right, up Vec) {
	sy, cy := SinCos(e.Yaw)
	sp, cp := SinCos(e.Pitch)
	half := e.half()
	forward = Vec{sy * cp, -sp, cy * cp}
	right = Vec{cy, 0, -sy}.Mul(half)
	up = Vec{sy * sp, cp, cy * sp}.Mul(half)
	return forward, right, up
}

func (e Eye) half() float64 { return math.Tan(e.FOV * math.Pi / 360) }

// Project returns the position of a point in the picture, −1..1 to the right and up, and
// its distance ahead; points that are not ahead are not in the picture.
func (e Eye) Project(p Vec) (x, y, ahead float64) {
	forward, right, up := e.axes()
	d := p.Sub(e.At)
	square := e.half() * e.half()
	ahead = d.Dot(forward)
	return d.Dot(right) / (square * ahead), d.Dot(up) / (square * ahead), ahead
}
