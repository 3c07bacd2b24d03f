package tiles

import (
	"image/color"
	"math"
)

// Units is the side of a cell on the drawing grid: the size of two by two vision patches
// of 14 pixels.
const Units = 28

// Middle is the centre of a cell.
const Middle = Units / 2.0

// Point returns the centre of a pixel on the drawing grid.
func Point(x, y, size int) (float64, float64) {
	scale := float64(Units) / float64(size)
	return (float64(x) + 0.5) * scale, (float64(y) + 0.5) * scale
}

// Shade is the darkening of row or column i of n: 28 of 255 per step, less on large
// maps, so that colours stay distinct in the last step.
func Shade(i, n int) uint8 { return uint8(i * min(28, 112/n)) }

// Darken subtracts from red and green.
func Darken(c color.RGBA, red, green uint8) color.RGBA {
	c.R -= min(c.R, red)
	c.G -= min(c.G, green)
	return c
}

// Within reports whether a point lies in the ellipse around (cx, cy).
func Within(x, y, cx, cy, rx, ry float64) bool {
	dx, dy := (x-cx)/rx, (y-cy)/ry
	return dx*dx+dy*dy < 1
}

// Figure is the player: a person in a wide coat with a hood, seen from the front, within
// the inner twenty units. It returns the ink of a point; ok is false outside of it.
func Figure[I any](x, y float64, face, coat, rim I) (ink I, ok bool) {
	inCoat := func(grow float64) bool {
		half := 2.5 + (y-11)*0.42 + grow
		return y > 11-grow && y < 22+grow && math.Abs(x-Middle) < half
	}
	switch {
	case Within(x, y, Middle, 9.6, 2.3, 2.4) && y > 8.6:
		return face, true
	case Within(x, y, Middle, 9, 3.6, 3.8), inCoat(0):
		return coat, true
	case Within(x, y, Middle, 9, 4.6, 4.8), inCoat(1):
		return rim, true
	}
	return ink, false
}
