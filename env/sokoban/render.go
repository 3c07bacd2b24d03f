package sokoban

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

// renderer draws rooms as pictures. The picture is a function of the room alone;
// equal rooms give equal bytes. It is safe for concurrent use.
//
// Two kinds of marks help a model whose vision encoder turns each cell into one
// token and knows positions only from the content of the cells. Shading reduces red from row
// to row and green from column to column, so that a cell shows its position in the
// room. Edges draws on each free cell what is on the other side of its edges: a dark
// band towards a wall, a short yellow one towards a box. Both are drawn also under the player
// and boxes.
type renderer struct {
	size    int
	shading bool
	edges   bool
	atlas   *tiles.Atlas[look]
}

// commonAtlas is shared by all renderers of the usual size.
var commonAtlas tiles.Atlas[look]

// newRenderer returns a renderer for cells of the given side in pixels. Sides
// outside 14..128 are moved to the nearer bound.
func newRenderer(tileSize int, shading, edges bool) *renderer {
	size := min(max(tileSize, minTile), maxTile)
	r := &renderer{size: size, shading: shading, edges: edges, atlas: new(tiles.Atlas[look])}
	if size == tiles.Units {
		r.atlas = &commonAtlas
	}
	return r
}

// look contains everything that the picture of a cell depends on.
type look struct {
	kind       tileKind
	edges      edges
	red, green uint8 // reduced by shading
}

// Draw returns a new picture of the room.
func (r *renderer) draw(room *Room) *image.RGBA {
	img := image.NewRGBA(image.Rect(0, 0, room.cols*r.size, room.rows*r.size))
	for row := range room.rows {
		for col := range room.cols {
			tiles.Paste(img, r.tile(r.look(room, Cell{row, col})), r.size, row, col)
		}
	}
	return img
}

func (r *renderer) look(room *Room, c Cell) look {
	l := look{kind: kindOf(room, c)}
	if r.edges && l.kind != tileWall {
		l.edges = edgesOf(room, c)
	}
	if r.shading {
		l.red, l.green = tiles.Shade(c.Row, room.rows), tiles.Shade(c.Col, room.cols)
	}
	return l
}

func (r *renderer) tile(l look) []byte {
	return r.atlas.Get(l, r.size, func(x, y int) color.RGBA {
		u, v := tiles.Point(x, y, r.size)
		return tiles.Darken(palette[inkAt(l.kind, l.edges, u, v)], l.red, l.green)
	})
}

func edgesOf(room *Room, c Cell) edges {
	var e edges
	for a := range Actions {
		switch next := c.step(a); {
		case room.Wall(next):
			e = e.with(a, beyondWall)
		case room.Box(next):
			e = e.with(a, beyondBox)
		}
	}
	return e
}

func kindOf(room *Room, c Cell) tileKind {
	onTarget := room.Target(c)
	switch {
	case room.Wall(c):
		return tileWall
	case c == room.player && onTarget:
		return tilePlayerTarget
	case c == room.player:
		return tilePlayer
	case room.Box(c) && onTarget:
		return tileDone
	case room.Box(c):
		return tileBox
	case onTarget:
		return tileTarget
	}
	return tileFloor
}
