package frozenlake

import (
	"encoding/binary"
	"image"
	"image/color"
	"sync/atomic"
)

// Bounds of the side of a cell in pixels.
const (
	minTile = 14
	maxTile = 128
)

// Renderer draws levels as pictures, TileSize pixels to a cell. The picture is a
// function of the level and the player's place alone; equal states give equal
// bytes. It is safe for concurrent use.
//
// Two kinds of marks help a model whose vision encoder turns each cell into one
// token and knows positions only from what it sees:
//
//   - Shading lights the lake from the upper left: each row has less red than
//     the one above it and each column less green than the one to its left, 28
//     of 255 at most. A cell then tells where on the map it lies. Without this,
//     models of half a million parameters learn the directions on the map from
//     rotary positions only slowly or not at all.
//   - Cracks draws on each cell what lies beyond its edges: jagged dark water
//     towards a hole, a bank of sand towards the shore. A cell then tells which
//     moves from it are safe, which otherwise takes attention from a cell to its
//     neighbours, that is, relative positions, inside the encoder.
//
// Both are drawn for every cell, whoever stands on it.
type Renderer struct {
	size    int
	shading bool
	cracks  bool
	tiles   *tileCache
}

// tileCache holds the inks of the cells drawn so far, by kind and edges.
type tileCache [int(tileKinds) << 8]atomic.Pointer[[]Ink]

// NewRenderer returns a renderer for cells of the given side in pixels. Sides
// outside 14..128 are moved to the nearer bound.
func NewRenderer(tileSize int, shading, cracks bool) *Renderer {
	size := min(max(tileSize, minTile), maxTile)
	r := &Renderer{size: size, shading: shading, cracks: cracks, tiles: new(tileCache)}
	if size == artUnits {
		r.tiles = &commonTiles
	}
	return r
}

// commonTiles is shared by all renderers of the usual size: at most 486 cells of
// 784 bytes.
var commonTiles tileCache

// Draw returns a new picture of the level with the player at a cell.
func (r *Renderer) Draw(m *Map, player Cell) *image.RGBA {
	img := image.NewRGBA(image.Rect(0, 0, m.n*r.size, m.n*r.size))
	var colours [inks]uint32
	for row := range m.n {
		for col := range m.n {
			c := Cell{row, col}
			r.mix(&colours, c, m.n)
			tile := r.tile(kindOf(m, c, player), r.edgesOf(m, c))
			r.paint(img, tile, &colours, c)
		}
	}
	return img
}

// paint copies one cell into the picture.
func (r *Renderer) paint(img *image.RGBA, tile []Ink, colours *[inks]uint32, c Cell) {
	for y := range r.size {
		at := (c.Row*r.size+y)*img.Stride + c.Col*r.size*4
		line := img.Pix[at : at+r.size*4]
		for x, ink := range tile[y*r.size : (y+1)*r.size] {
			binary.LittleEndian.PutUint32(line[x*4:], colours[ink&(inks-1)])
		}
	}
}

// The palette has a power of two of inks, so that masking bounds an index.
var _ [0]struct{} = [inks & (inks - 1)]struct{}{}

// mix fills in the colours of a cell, as the four bytes of a pixel.
func (r *Renderer) mix(colours *[inks]uint32, c Cell, n int) {
	red, green := uint8(0), uint8(0)
	if r.shading {
		red, green = shade(c.Row, n), shade(c.Col, n)
	}
	for ink, base := range Palette {
		base.R -= min(base.R, red)
		base.G -= min(base.G, green)
		colours[ink] = uint32(base.R) | uint32(base.G)<<8 | uint32(base.B)<<16 | uint32(base.A)<<24
	}
}

// shade is what row or column i of n loses. Large lakes take smaller steps, so
// that the last one keeps its colours apart.
func shade(i, n int) uint8 { return uint8(i * min(28, 112/n)) }

// Shade returns a colour of the palette as it appears on a cell of an n×n lake.
func Shade(ink Ink, c Cell, n int) color.RGBA {
	base := Palette[ink%inks]
	base.R -= min(base.R, shade(c.Row, n))
	base.G -= min(base.G, shade(c.Col, n))
	return base
}

func (r *Renderer) tile(kind tileKind, e edges) []Ink {
	slot := &r.tiles[int(kind)<<8|int(e)]
	if have := slot.Load(); have != nil {
		return *have
	}
	tile := drawTile(kind, e, r.size)
	slot.Store(&tile)
	return tile
}

func (r *Renderer) edgesOf(m *Map, c Cell) edges {
	var e edges
	if !r.cracks {
		return e
	}
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
