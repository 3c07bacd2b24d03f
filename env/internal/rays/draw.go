package rays

import (
	"image"
	"image/color"
	"math"
)

// World is a scene to draw.
type World struct {
	Solids []Solid
	// Background returns where a ray that hits no solid ends, in lengths of dir, with
	// the colour there and the number of the surface, from 0 to
	// 63. Surfaces with different numbers have a visible border.
	Background func(from, dir Vec) (t float64, rgb color.RGBA, surface int32)
	// Shade returns the visible colour of a surface with a normal at a distance in
	// metres.
	Shade func(c color.RGBA, normal Vec, away float64) color.RGBA
}

// tileSide is the side of a tile of pixels that share a list of solids.
const tileSide = 16

// canvas draws the view of an eye: it casts a ray through the centre of every pixel,
// and four where neighbouring pixels show different surfaces.
type canvas struct {
	world              *World
	eye                Eye
	size               int
	forward, right, up Vec
	tiles              [][]int32 // solids that may be visible, by tile
	perRow             int
}

// Draw draws a square picture, size pixels a side. Equal arguments give equal
// bytes.
func (w *World) Draw(eye Eye, size int) *image.RGBA {
	size = max(0, size)
	c := canvas{world: w, eye: eye, size: size}
	c.forward, c.right, c.up = eye.axes()
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

// sort lists the solids of each tile by the bounding box of their projected corners.
func (c *canvas) sort() {
	c.perRow = (c.size + tileSide - 1) / tileSide
	c.tiles = make([][]int32, c.perRow*c.perRow)
	for i := range c.world.Solids {
		x0, y0, x1, y1, seen := c.frame(&c.world.Solids[i])
		if !seen {
			continue
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

// frame returns the part of the picture in which a solid may be visible.
func (c *canvas) frame(s *Solid) (x0, y0, x1, y1 float64, seen bool) {
	x0, y0, x1, y1 = 1, 1, -1, -1
	sin, cos := SinCos(s.Yaw)
	middle := s.Lo.Add(s.Hi).Mul(0.5)
	behind := 0
	for corner := range 8 {
		d := s.Hi.Sub(s.Lo).Mul(0.5)
		if corner&1 != 0 {
			d.X = -d.X
		}
		if corner&2 != 0 {
			d.Y = -d.Y
		}
		if corner&4 != 0 {
			d.Z = -d.Z
		}
		x, y, ahead := c.eye.Project(middle.Add(Vec{d.X*cos + d.Z*sin, d.Y, d.Z*cos - d.X*sin}))
		if ahead < 0.02 {
			behind++
			continue
		}
		x0, y0, x1, y1 = min(x0, x), min(y0, y), max(x1, x), max(y1, y)
	}
	if behind > 0 { // may be anywhere
		return -1, -1, 1, 1, behind < 8
	}
	return x0, y0, x1, y1, x0 <= 1 && x1 >= -1 && y0 <= 1 && y1 >= -1
}

// cast returns the colour of a point of a pixel and the number of its surface.
func (c *canvas) cast(px, py int, dx, dy float64) (color.RGBA, int32) {
	x := (float64(px)+dx)*2/float64(c.size) - 1
	y := 1 - (float64(py)+dy)*2/float64(c.size)
	dir := c.forward.Add(c.right.Mul(x)).Add(c.up.Mul(y))
	nearest, hit, normal := math.Inf(1), int32(-1), Vec{}
	for _, i := range c.tiles[py/tileSide*c.perRow+px/tileSide] {
		if t, n, ok := c.world.Solids[i].Hit(c.eye.At, dir); ok && t < nearest {
			nearest, hit, normal = t, i, n
		}
	}
	if at, rgb, surface := c.world.Background(c.eye.At, dir); hit < 0 || at < nearest {
		return rgb, surface
	}
	solid := &c.world.Solids[hit]
	face := int32(normal.X*2+normal.Y*3+normal.Z*5) + 8
	if solid.Form != Box {
		face = 0 // curved: no edges of its own
		if normal.Y > 0.999 {
			face = 1
		}
	}
	return c.world.Shade(solid.Color, normal, nearest*math.Sqrt(dir.Dot(dir))), 32*hit + face + 64
}

// smooth redraws pixels at the borders of surfaces, from four rays each.
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

// Light comes from above, a little from behind and from the left.
var light = Vec{-0.35, 0.85, -0.4}.Unit()

// Lit darkens a colour by the angle of its surface and by distance.
func Lit(c color.RGBA, normal Vec, away float64) color.RGBA {
	k := 0.78 + 0.2*normal.Dot(light) + 0.08*normal.X
	k *= 1 - min(away, 12)*0.015
	part := func(v uint8) uint8 { return uint8(min(float64(v)*k+4, 255)) }
	return color.RGBA{part(c.R), part(c.G), part(c.B), 255}
}
