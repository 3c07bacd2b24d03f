// Package tiles caches drawn cells and composes pictures from them.
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

// Paste copies a cell's pixels to its place in a picture.
func Paste(img *image.RGBA, tile []byte, size, row, col int) {
	line := size * 4
	at := row*size*img.Stride + col*line
	for y := 0; y < len(tile); y += line {
		copy(img.Pix[at:at+line], tile[y:y+line])
		at += img.Stride
	}
}
