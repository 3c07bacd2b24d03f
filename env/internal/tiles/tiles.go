// Package tiles draws levels cell by cell and caches the cells.
package tiles

import (
	"image"
	"image/color"
	"sync"
)

// maxBytes is the size of an Atlas at which it is emptied.
const maxBytes = 32 << 20

// Atlas caches the pixels of square cells by key. The zero value is empty and ready to
// use, and it is safe for concurrent use.
type Atlas[K comparable] struct {
	mu    sync.RWMutex
	tiles map[K][]byte
	bytes int
}

// Get returns the pixels of a cell, row by row, four bytes each. A cell that is not in
// the cache is drawn by calling at for each pixel. The result must not be changed.
func (a *Atlas[K]) Get(key K, size int, at func(x, y int) color.RGBA) []byte {
	a.mu.RLock()
	tile := a.tiles[key]
	a.mu.RUnlock()
	if tile != nil {
		return tile
	}
	tile = make([]byte, 0, size*size*4)
	for y := range size {
		for x := range size {
			c := at(x, y)
			tile = append(tile, c.R, c.G, c.B, c.A)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tiles == nil || a.bytes > maxBytes {
		a.tiles, a.bytes = make(map[K][]byte), 0
	}
	a.tiles[key] = tile
	a.bytes += len(tile)
	return tile
}

// Look is everything that the picture of a cell depends on: its kind, and how much red
// and green shading takes away.
type Look[K comparable] struct {
	Kind       K
	red, green uint8
}

// Renderer draws levels as pictures of square cells. The picture is a function of the
// cells' kinds alone; equal kinds give equal bytes. It is safe for concurrent use.
//
// Shading takes red away from row to row and green from column to column, 28 of 255 at
// most, so that a cell shows its position. It helps a model whose vision encoder turns
// each cell into one token: without it, models of half a million parameters learn the
// directions on the map from rotary positions only slowly or not at all.
type Renderer[K comparable] struct {
	size    int
	shading bool
	atlas   *Atlas[Look[K]]
	color   func(kind K, u, v float64) color.RGBA
}

// NewRenderer returns a renderer for cells with sides of size pixels. color gives the
// colour at a point of a cell in Units. Renderers of the usual size share the common
// atlas.
func NewRenderer[K comparable](
	size int, shading bool, common *Atlas[Look[K]], color func(kind K, u, v float64) color.RGBA,
) *Renderer[K] {
	if size != Units {
		common = new(Atlas[Look[K]])
	}
	return &Renderer[K]{size: size, shading: shading, atlas: common, color: color}
}

// Draw returns a new picture of a level with the given kinds of cells.
func (r *Renderer[K]) Draw(rows, cols int, kind func(row, col int) K) *image.RGBA {
	img := image.NewRGBA(image.Rect(0, 0, cols*r.size, rows*r.size))
	for row := range rows {
		for col := range cols {
			l := Look[K]{Kind: kind(row, col)}
			if r.shading {
				l.red, l.green = Shade(row, rows), Shade(col, cols)
			}
			Paste(img, r.tile(l), r.size, row, col)
		}
	}
	return img
}

func (r *Renderer[K]) tile(l Look[K]) []byte {
	return r.atlas.Get(l, r.size, func(x, y int) color.RGBA {
		u, v := Point(x, y, r.size)
		return Darken(r.color(l.Kind, u, v), l.red, l.green)
	})
}

// Paste copies a cell's pixels to its place in a picture.
func Paste(img *image.RGBA, tile []byte, size, row, col int) {
	line := size * 4
	at := row*size*img.Stride + col*line
	for y := 0; y < len(tile); y += line {
		copy(img.Pix[at:at+line], tile[y:y+line])
		at += img.Stride
	}
}
