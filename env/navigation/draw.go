package navigation

import (
	"image"
	"image/color"
	"math"
)

// Pixels that share a list of solids.
const tileSide = 16

// canvas draws what a camera sees of a scene: it casts a ray through the middle
// of every pixel, and four where neighbours show different surfaces.
type canvas struct {
	scene              *Scene
	eye                camera
	size               int
	forward, right, up vec
	tiles              [][]int32 // solids that may be seen, by tile
	perRow             int
}

// Render draws the view from a place at eye height, looking into a direction given
// in degrees, clockwise from north and downwards, with a field of view in degrees
// from edge to edge. The picture is square, size pixels a side. Equal arguments
// give equal bytes.
func (s *Scene) Render(x, z, yaw, horizon, fov float64, size int) *image.RGBA {
	c := canvas{scene: s, eye: camera{vec{x, eyeHeight, z}, yaw, horizon, fov}, size: size}
	c.forward, c.right, c.up = c.eye.axes()
	c.sort()
	img := image.NewRGBA(image.Rect(0, 0, size, size))
	surfaces := make([]int32, size*size)
	for py := range size {
		for px := range size {
			rgb, surface := c.cast(px, py, 0.5, 0.5)
			img.SetRGBA(px, py, rgb)
			surfaces[py*size+px] = surface
		}
	}
	c.smooth(img, surfaces)
	return img
}

// sort lists the solids of each tile by the box around their corners in the
// picture.
func (c *canvas) sort() {
	c.perRow = (c.size + tileSide - 1) / tileSide
	c.tiles = make([][]int32, c.perRow*c.perRow)
	for i := range c.scene.solids {
		s := &c.scene.solids[i]
		x0, y0, x1, y1 := 1.0, 1.0, -1.0, -1.0
		behind := 0
		for corner := range 8 {
			p := s.lo
			if corner&1 != 0 {
				p.x = s.hi.x
			}
			if corner&2 != 0 {
				p.y = s.hi.y
			}
			if corner&4 != 0 {
				p.z = s.hi.z
			}
			x, y, ahead := c.eye.project(p)
			if ahead < 0.02 {
				behind++
				continue
			}
			x0, y0, x1, y1 = min(x0, x), min(y0, y), max(x1, x), max(y1, y)
		}
		switch {
		case behind == 8:
			continue
		case behind > 0: // may be anywhere
			x0, y0, x1, y1 = -1, -1, 1, 1
		}
		tile := func(v float64) int {
			v = min(max(v, -1), 1)
			return min(max(int((v+1)/2*float64(c.size))/tileSide, 0), c.perRow-1)
		}
		for ty := tile(-y1); ty <= tile(-y0); ty++ {
			for tx := tile(x0); tx <= tile(x1); tx++ {
				c.tiles[ty*c.perRow+tx] = append(c.tiles[ty*c.perRow+tx], int32(i))
			}
		}
	}
}

// cast returns the colour of a point of a pixel and a number of the surface seen.
func (c *canvas) cast(px, py int, dx, dy float64) (color.RGBA, int32) {
	x := (float64(px)+dx)*2/float64(c.size) - 1
	y := 1 - (float64(py)+dy)*2/float64(c.size)
	dir := c.forward.add(c.right.mul(x)).add(c.up.mul(y))
	nearest, hit, normal := math.Inf(1), int32(-1), vec{}
	for _, i := range c.tiles[py/tileSide*c.perRow+px/tileSide] {
		if t, n, ok := c.scene.solids[i].hit(c.eye.at, dir); ok && t < nearest {
			nearest, hit, normal = t, i, n
		}
	}
	if wallAt, rgb, surface := c.scene.wall(c.eye.at, dir); hit < 0 || wallAt < nearest {
		return rgb, surface
	}
	face := int32(normal.x*2+normal.y*3+normal.z*5) + 8
	if c.scene.solids[hit].form != box {
		face = 0 // curved: no edges of its own
		if normal.y > 0.999 {
			face = 1
		}
	}
	return shade(c.scene.solids[hit].color, normal, nearest*math.Sqrt(dir.dot(dir))), 16*hit + face + 64
}

// light comes from above, a little from the south-west.
var light = vec{-0.35, 0.85, -0.4}.unit()

// shade darkens a colour by the angle of its surface and by distance.
func shade(c color.RGBA, normal vec, away float64) color.RGBA {
	k := 0.78 + 0.2*normal.dot(light) + 0.08*normal.x
	k *= 1 - min(away, 12)*0.015
	part := func(v uint8) uint8 { return uint8(min(float64(v)*k+4, 255)) }
	return color.RGBA{part(c.R), part(c.G), part(c.B), 255}
}

// wall returns where a ray leaves the room, with the colour and a number of the
// surface: walls with a baseboard and a seam each metre, a chequered floor, the
// ceiling.
func (s *Scene) wall(from, dir vec) (t float64, rgb color.RGBA, surface int32) {
	t = math.Inf(1)
	side := 0
	for i, w := range [6]struct{ dir, from, at float64 }{
		{dir.z, from.z, s.hi.z}, {dir.x, from.x, s.hi.x}, {-dir.z, -from.z, -s.lo.z}, {-dir.x, -from.x, -s.lo.x},
		{-dir.y, -from.y, -s.lo.y}, {dir.y, from.y, s.hi.y},
	} {
		if w.dir > 0 {
			if at := (w.at - w.from) / w.dir; at < t {
				t, side = at, i
			}
		}
	}
	p := from.add(dir.mul(t))
	away := t * math.Sqrt(dir.dot(dir))
	switch side {
	case 4:
		const tile = 0.5
		i := (int(math.Floor(p.x/tile)) + int(math.Floor(p.z/tile))) & 1
		return t, shade(s.floor[i], vec{0, 1, 0}, away), int32(i) + 1
	case 5:
		return t, shade(color.RGBA{236, 236, 232, 255}, vec{0, 0.5, 0}, away), 4
	}
	c, part := s.colors[side], int32(0)
	along := p.x
	if side%2 == 1 {
		along = p.z
	}
	switch seam := math.Abs(along - math.Round(along)); {
	case p.y < 0.1:
		c, part = palette[cream], 1
	case seam < 0.012:
		c, part = color.RGBA{c.R - 26, c.G - 26, c.B - 26, 255}, 2
	}
	return t, shade(c, vec{0, 0.5, 0}, away), int32(side)*4 + part + 8
}

// smooth draws pixels again that lie where surfaces meet, from four rays.
func (c *canvas) smooth(img *image.RGBA, surfaces []int32) {
	n := c.size
	for py := range n {
		for px := range n {
			i := py*n + px
			if !(px > 0 && surfaces[i-1] != surfaces[i] || px+1 < n && surfaces[i+1] != surfaces[i] ||
				py > 0 && surfaces[i-n] != surfaces[i] || py+1 < n && surfaces[i+n] != surfaces[i]) {
				continue
			}
			var r, g, b int
			for _, at := range [4][2]float64{{0.375, 0.125}, {0.875, 0.375}, {0.125, 0.625}, {0.625, 0.875}} {
				rgb, _ := c.cast(px, py, at[0], at[1])
				r, g, b = r+int(rgb.R), g+int(rgb.G), b+int(rgb.B)
			}
			img.SetRGBA(px, py, color.RGBA{uint8((r + 2) / 4), uint8((g + 2) / 4), uint8((b + 2) / 4), 255})
		}
	}
}
