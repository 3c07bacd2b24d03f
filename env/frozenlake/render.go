package frozenlake

import (
	"image"
	"image/color"

	"vagen/env/internal/tiles"
)

// kind is the kind of a cell: what stands there, and what lies beyond its edges.
type kind struct {
	tile  tileKind
	edges edges
}

// commonAtlas is shared by all renderers of the usual size. All cells of a 4×4
// lake take less than 3 MB.
var commonAtlas tiles.Atlas[tiles.Look[kind]]

// renderer draws levels. With cracks, each cell shows its neighbours at its edges, also
// under the player: jagged dark water towards a hole, a bank of sand towards the shore. So
// the picture of one cell shows which moves are safe; otherwise a model's encoder needs
// attention between neighbouring cells, that is, relative positions.
type renderer struct {
	*tiles.Renderer[kind]
	cracks bool
}

func newRenderer(tileSize int, shading, cracks bool) *renderer {
	return &renderer{tiles.NewRenderer(tileSize, shading, &commonAtlas, colorAt), cracks}
}

func colorAt(k kind, u, v float64) color.RGBA { return palette[inkAt(k.tile, k.edges, u, v)] }

// draw returns a new picture of the level with the player at a cell.
func (r *renderer) draw(m *Map, player Cell) *image.RGBA {
	return r.Draw(m.n, m.n, func(row, col int) kind {
		c := Cell{row, col}
		k := kind{tile: kindOf(m, c, player)}
		if r.cracks {
			k.edges = edgesOf(m, c)
		}
		return k
	})
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
