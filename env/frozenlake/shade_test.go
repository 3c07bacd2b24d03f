package frozenlake

import (
	"image/color"

	"vagen/env/internal/tiles"
)

// shade returns a colour of the palette as it appears on a cell of an n×n lake.
func shade(ink ink, c Cell, n int) color.RGBA {
	return tiles.Darken(palette[ink%inks], tiles.Shade(c.Row, n), tiles.Shade(c.Col, n))
}
