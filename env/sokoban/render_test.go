package sokoban

import (
	"bytes"
	"image/color"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env/internal/envtest"
	"vagen/env/internal/tiles"
)

func TestEveryKindOfCellLooksDifferent(t *testing.T) {
	envtest.Differ(t, tileKinds, func(kind tileKind, x, y float64) ink { return inkAt(kind, 0, x, y) })
}

func TestShadingKeepsColoursApartInEveryRoom(t *testing.T) {
	list := []ink{inkFloor, inkBrick, inkRing, inkCrate, inkDone, inkCoat}
	for _, n := range []int{3, 6, 10, 32} {
		for _, shade := range [][2]uint8{{0, 0}, {tiles.Shade(n-1, n), 0}, {0, tiles.Shade(n-1, n)},
			{tiles.Shade(n-1, n), tiles.Shade(n-1, n)}} {
			envtest.Apart(t, 60, list, func(i ink) color.RGBA { return tiles.Darken(palette[i], shade[0], shade[1]) })
		}
	}
}

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
