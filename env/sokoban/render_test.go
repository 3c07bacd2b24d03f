package sokoban

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env/internal/tiles"
)

func TestEveryKindOfCellLooksDifferent(t *testing.T) {
	for _, size := range []int{14, 28, 64} {
		for a := range tileKinds {
			for b := range a {
				n := 0
				for i := range size * size {
					x, y := tiles.Point(i%size, i/size, size)
					if inkAt(a, 0, x, y) != inkAt(b, 0, x, y) {
						n++
					}
				}
				require.Greater(t, n, size*size/12, "kinds %d and %d at %d pixels", a, b, size)
			}
		}
	}
}

func TestShadingKeepsColoursApartInEveryRoom(t *testing.T) {
	list := []ink{inkFloor, inkBrick, inkRing, inkCrate, inkDone, inkCoat}
	for _, n := range []int{3, 6, 10, 32} {
		for _, shade := range [][2]uint8{{0, 0}, {tiles.Shade(n-1, n), 0}, {0, tiles.Shade(n-1, n)},
			{tiles.Shade(n-1, n), tiles.Shade(n-1, n)}} {
			for i, a := range list {
				for _, b := range list[:i] {
					x, y := tiles.Darken(palette[a], shade[0], shade[1]), tiles.Darken(palette[b], shade[0], shade[1])
					far := diff(x.R, y.R) + diff(x.G, y.G) + diff(x.B, y.B)
					require.Greater(t, far, 60, "inks %d and %d, shade %v: %v %v", a, b, shade, x, y)
				}
			}
		}
	}
}

func diff(a, b uint8) int { return max(int(a), int(b)) - min(int(a), int(b)) }

func TestEdgesTellWhatLiesBeyond(t *testing.T) {
	r, err := Parse([]string{"#####", "#PX_#", "#__O#", "#####"})
	require.NoError(t, err)
	img := newRenderer(28, false, true).draw(r)
	player := func(x, y int) any { return img.RGBAAt(28+x, 28+y) }
	require.Equal(t, any(palette[inkWallEdge]), player(14, 2))
	require.Equal(t, any(palette[inkWallEdge]), player(2, 14))
	require.Equal(t, any(palette[inkBoxEdge]), player(25, 14))
	require.Equal(t, any(palette[inkFloor]), player(14, 26))
	require.Equal(t, palette[inkFloor], newRenderer(28, false, false).draw(r).RGBAAt(28+25, 28+14))
}

func TestPicturesAreFreshAndEqualForEqualRooms(t *testing.T) {
	r, err := Parse(alley)
	require.NoError(t, err)
	d := newRenderer(28, true, true)
	a, b := d.draw(r), d.draw(r.Clone())
	require.Equal(t, 6*28, a.Rect.Dx())
	require.Equal(t, 3*28, a.Rect.Dy())
	require.True(t, bytes.Equal(a.Pix, b.Pix))
	clear(a.Pix)
	require.True(t, bytes.Equal(b.Pix, d.draw(r).Pix), "a picture shares pixels with the renderer")
	r.Move(Right)
	require.False(t, bytes.Equal(b.Pix, d.draw(r).Pix))
}
