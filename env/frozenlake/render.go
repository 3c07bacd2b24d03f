package frozenlake

import (
	"image"
	"image/color"

	"vagen/env/internal/tiles"
)

// Bounds of the side of a cell in pixels.
const (
	minTile = 14
	maxTile = 128
)

// renderer draws levels as pictures, TileSize pixels to a cell. The picture is a
// function of the level and the player's place alone; equal states give equal
// bytes. It is safe for concurrent use.
//
// Two kinds of marks help a model whose vision encoder turns each cell into one
// token and knows positions only from the content of the cells:
//
//   - Shading lights the lake from the upper left: each row has less red than
//     the one above it and each column less green than the one to its left, 28
//     of 255 at most. A cell then shows its position on the map. Without this,
//     models of half a million parameters learn the directions on the map from
//     rotary positions only slowly or not at all.
//   - Cracks draws on each cell what is on the other side of its edges: a jagged dark band
//     towards a hole, a sand-coloured band towards the shore. A cell then shows which moves
//     from it are safe, which the encoder could otherwise only learn by attending to
//     neighbour cells by relative position.
//
// Both are drawn on every cell, also under the player.
type renderer struct {
	size    int
	shading bool
	cracks  bool
	atlas   *tiles.Atlas[look]
}

// newRenderer returns a renderer for cells of the given side in pixels. Sides
// outside 14..128 are moved to the nearer bound.
func newRenderer(tileSize int, shading, cracks bool) *renderer {
	size := min(max(tileSize, minTile), maxTile)
	r := &renderer{size: size, shading: shading, cracks: cracks, atlas: new(tiles.Atlas[look])}
	if size == tiles.Units {
		r.atlas = &commonAtlas
	}
	return r
}

// Draw returns a new picture of the level with the player at a cell.
func (r *renderer) draw(m *Map, player Cell) *image.RGBA {
	img := image.NewRGBA(image.Rect(0, 0, m.n*r.size, m.n*r.size))
	for row := range m.n {
		for col := range m.n {
			tile := r.tile(r.look(m, Cell{row, col}, player))
			tiles.Paste(img, tile, r.size, row, col)
		}
	}
	return img
}

// look contains everything that the picture of a cell depends on.
type look struct {
	kind       tileKind
	edges      edges
	red, green uint8 // reduced by shading
}

func (r *renderer) look(m *Map, c, player Cell) look {
	l := look{kind: kindOf(m, c, player)}
	if r.cracks {
		l.edges = edgesOf(m, c)
	}
	if r.shading {
		l.red, l.green = tiles.Shade(c.Row, m.n), tiles.Shade(c.Col, m.n)
	}
	return l
}

// commonAtlas is shared by all renderers of the usual size. All looks of a 4×4
// lake take less than 3 MB.
var commonAtlas tiles.Atlas[look]

func (r *renderer) tile(l look) []byte {
	return r.atlas.Get(l, r.size, func(x, y int) color.RGBA {
		u, v := tiles.Point(x, y, r.size)
		return tiles.Darken(palette[inkAt(l.kind, l.edges, u, v)], l.red, l.green)
	})
}

// shade returns a colour of the palette as it appears on a cell of an n×n lake.
func shade(ink ink, c Cell, n int) color.RGBA {
	return tiles.Darken(palette[ink%inks], tiles.Shade(c.Row, n), tiles.Shade(c.Col, n))
}

func edgesOf(m *Map, c Cell) edges {
	var e edges
	for a := range Actions {
		switch m.At(c.step(a)) {
		case 0:
			e = e.with(a, beyondShore)
		case Hole:
			e = e.with(a, beyondHole)
		}
	}
	return e
}

func kindOf(m *Map, c, player Cell) tileKind {
	kind := tileIce
	switch m.At(c) {
	case Hole:
		kind = tileHole
	case Goal:
		kind = tileGoal
	}
	if c == player {
		kind += tilePlayer
	}
	return kind
}
