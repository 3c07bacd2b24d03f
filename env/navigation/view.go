package navigation

import (
	"image"
	"image/color"
	"math"

	"vagen/env/internal/rays"
)

// Render draws the view from a position at eye height. yaw (clockwise), horizon
// (downwards) and the field of view fov (from edge to edge) are in degrees. The picture
// is square with a side of size pixels. Equal arguments give equal bytes.
func (s *Scene) Render(x, z, yaw, horizon, fov float64, size int) *image.RGBA {
	w := rays.World{Solids: s.solids, Background: s.wall, Shade: rays.Lit}
	return w.Draw(rays.Eye{At: rays.Vec{X: x, Y: eyeHeight, Z: z}, Yaw: yaw, Pitch: horizon, FOV: fov}, size)
}

// wall returns where a ray leaves the room, with the colour and the number of the
// surface: walls with a baseboard and a seam each metre, a chequered floor, the
// ceiling.
func (s *Scene) wall(from, dir rays.Vec) (t float64, rgb color.RGBA, surface int32) {
	t = math.Inf(1)
	side := 0
	for i, w := range [6]struct{ dir, from, at float64 }{
		{dir.Z, from.Z, s.hi.Z}, {dir.X, from.X, s.hi.X}, {-dir.Z, -from.Z, -s.lo.Z}, {-dir.X, -from.X, -s.lo.X},
		{-dir.Y, -from.Y, -s.lo.Y}, {dir.Y, from.Y, s.hi.Y},
	} {
		if w.dir > 0 {
			if at := (w.at - w.from) / w.dir; at < t {
				t, side = at, i
			}
		}
	}
	p := from.Add(dir.Mul(t))
	away := t * math.Sqrt(dir.Dot(dir))
	switch side {
	case 4:
		const tile = 0.5
		i := (int(math.Floor(p.X/tile)) + int(math.Floor(p.Z/tile))) & 1
		return t, rays.Lit(s.floor[i].RGBA, rays.Vec{Y: 1}, away), int32(i) + 1
	case 5:
		return t, rays.Lit(color.RGBA{240, 240, 236, 255}, rays.Vec{Y: 0.5}, away), 4
	}
	c, part := s.colors[side], int32(0)
	along := p.X
	if side%2 == 1 {
		along = p.Z
	}
	switch seam := math.Abs(along - math.Round(along)); {
	case p.Y < 0.1:
		c, part = catalog.Palette["cream"].RGBA, 1
	case seam < 0.012:
		c, part = color.RGBA{c.R - 26, c.G - 26, c.B - 26, 255}, 2
	}
	return t, rays.Lit(c, rays.Vec{Y: 0.5}, away), int32(side)*4 + part + 8
}

// visibility is the visible range in metres, as in the original.
const visibility = 10

// visible reports whether an object is in the picture, within the visible range, and part
// of its centre is not hidden.
func (s *Scene) visible(eye rays.Eye, object int) bool {
	o := &s.objects[object]
	middle := rays.Vec{X: o.Center[0], Y: o.Center[1], Z: o.Center[2]}
	if d := middle.Sub(eye.At); d.Dot(d) > visibility*visibility {
		return false
	}
	for _, shift := range [5]rays.Vec{{}, {X: 0.3}, {X: -0.3}, {Y: 0.3}, {Z: 0.3}} {
		p := middle.Add(rays.Vec{X: shift.X * o.Size[0], Y: shift.Y * o.Size[1], Z: shift.Z * o.Size[2]})
		x, y, ahead := eye.Project(p)
		if ahead <= 0.05 || math.Abs(x) > 1 || math.Abs(y) > 1 {
			continue
		}
		if i, _ := rays.First(s.solids, eye.At, p.Sub(eye.At)); i >= 0 && s.solids[i].Object == object {
			return true
		}
	}
	return false
}
