package sokoban

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

// commonAtlas is shared by all renderers of the usual size.
var commonAtlas tiles.Atlas[tiles.Look[kind]]

// renderer draws rooms. With edges, each free cell shows its neighbours at its edges,
// also under a box or the player: a dark band towards a wall, a short yellow one towards a box.
type renderer struct {
	*tiles.Renderer[kind]
	edges bool
}

func newRenderer(tileSize int, shading, edges bool) *renderer {
	return &renderer{tiles.NewRenderer(tileSize, shading, &commonAtlas, colorAt), edges}
}

func colorAt(k kind, u, v float64) color.RGBA { return palette[inkAt(k.tile, k.edges, u, v)] }

// draw returns a new picture of the room.
func (r *renderer) draw(room *Room) *image.RGBA {
	return r.Draw(room.rows, room.cols, func(row, col int) kind {
		c := Cell{row, col}
		k := kind{tile: kindOf(room, c)}
		if r.edges && k.tile != tileWall {
			k.edges = edgesOf(room, c)
		}
		return k
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
