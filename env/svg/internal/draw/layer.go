package draw

import (
	"image"
	"image/color"
	"math"
)

// mask is the coverage that clip paths leave of each pixel.
type mask []uint8

// canvas draws on a stack of layers, premultiplied colours of eight bits.
type canvas struct {
	size   int
	scan   *scanner
	layers []*image.RGBA
}

func newCanvas(size int) *canvas {
	c := &canvas{size: size, scan: newScanner(size, size)}
	c.push()
	pix := c.layers[0].Pix
	for i := range pix {
		pix[i] = 255
	}
	return c
}

// push starts a transparent layer.
func (c *canvas) push() {
	c.layers = append(c.layers, image.NewRGBA(image.Rect(0, 0, c.size, c.size)))
}

// pop puts the top layer onto the one below.
func (c *canvas) pop(opacity float64) {
	top := c.layers[len(c.layers)-1]
	c.layers = c.layers[:len(c.layers)-1]
	below := c.layers[len(c.layers)-1].Pix
	cover := uint8(opacity*255 + 0.5)
	for i := 0; i < len(below); i += 4 {
		if top.Pix[i+3] != 0 {
			blend(below[i:i+4:i+4], color.RGBA{top.Pix[i], top.Pix[i+1], top.Pix[i+2], top.Pix[i+3]}, cover)
		}
	}
}

// fill paints what the outlines in the scanner cover.
func (c *canvas) fill(evenOdd bool, clip mask, paint shader) {
	pix := c.layers[len(c.layers)-1].Pix
	c.scan.fill(evenOdd, func(y, x0 int, cover []uint8) {
		row := (y*c.size + x0) * 4
		for i, a := range cover {
			if clip != nil {
				a = over(a, clip[y*c.size+x0+i])
			}
			if a != 0 {
				at := row + 4*i
				blend(pix[at:at+4:at+4], paint(point{float64(x0+i) + 0.5, float64(y) + 0.5}), a)
			}
		}
	})
}

// blend puts a premultiplied colour with coverage over a pixel.
func blend(pixel []uint8, src color.RGBA, cover uint8) {
	if cover == 255 && src.A == 255 {
		pixel[0], pixel[1], pixel[2], pixel[3] = src.R, src.G, src.B, 255
		return
	}
	keep := 255 - over(src.A, cover)
	pixel[0] = over(src.R, cover) + over(pixel[0], keep)
	pixel[1] = over(src.G, cover) + over(pixel[1], keep)
	pixel[2] = over(src.B, cover) + over(pixel[2], keep)
	pixel[3] = over(src.A, cover) + over(pixel[3], keep)
}

// over is a·b/255, rounded.
func over(a, b uint8) uint8 {
	t := uint32(a)*uint32(b) + 128
	return uint8((t + t>>8) >> 8)
}

// bounds is a box around points.
type bounds struct{ x0, y0, x1, y1 float64 }

// unit maps the unit square to the bounds, as objectBoundingBox demands.
func (b bounds) unit() matrix { return matrix{b.x1 - b.x0, 0, 0, b.y1 - b.y0, b.x0, b.y0} }

func boundsOf(lines []polyline) bounds {
	b := bounds{math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)}
	for _, l := range lines {
		for _, p := range l.points {
			b.x0, b.y0 = min(b.x0, p.x), min(b.y0, p.y)
			b.x1, b.y1 = max(b.x1, p.x), max(b.y1, p.y)
		}
	}
	return b
}
