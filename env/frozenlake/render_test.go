package frozenlake

import (
	"bytes"
	"image"
	"image/color"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env/internal/envtest"
)

func draw(t *testing.T, size int, shading, cracks bool, player Cell, rows ...string) *image.RGBA {
	t.Helper()
	m, err := Parse(rows)
	require.NoError(t, err)
	return newRenderer(size, shading, cracks).draw(m, player)
}

var island = []string{"SFFF", "FFHF", "FFFF", "FFFG"}

func TestCellsTellTheirPlaceByShade(t *testing.T) {
	img := draw(t, 28, true, true, Cell{0, 0}, island...)
	at := func(r, c int) color.RGBA { return img.RGBAAt(c*28+7, r*28+20) } // bare ice of a cell
	a, below, right := at(1, 1), at(2, 1), at(1, 3)
	require.Equal(t, a.R-28, below.R)
	require.Equal(t, a.G, below.G)
	require.Equal(t, a.G-56, right.G)
	require.Equal(t, a.R, right.R)
	require.Equal(t, shade(inkIce, Cell{2, 1}, 4), below)

	flat := draw(t, 28, false, true, Cell{0, 0}, island...)
	require.Equal(t, flat.RGBAAt(28+7, 28+20), flat.RGBAAt(3*28+7, 2*28+20))
}

func TestShadingKeepsColoursApartOnEveryLake(t *testing.T) {
	for _, n := range []int{2, 4, 8, 16, 64} {
		for _, c := range []Cell{{0, 0}, {n - 1, 0}, {0, n - 1}, {n - 1, n - 1}} {
			inks := []ink{inkIce, inkWater, inkShore, inkMat, inkCoat}
			envtest.Apart(t, 80, inks, func(i ink) color.RGBA { return shade(i, c, n) })
		}
	}
}

// A band along each edge, three pixels deep, shows the neighbouring cell, also if the
// player is on the cell.
func TestEdgesTellWhatLiesBeyond(t *testing.T) {
	rows := []string{"FFFF", "FSHF", "FFFF", "FFFG"}
	for _, player := range []Cell{{1, 1}, {1, 2}, {3, 3}, {0, 0}} {
		img := draw(t, 28, false, true, player, rows...)
		m, err := Parse(rows)
		require.NoError(t, err)
		for r := range 4 {
			for c := range 4 {
				cell := Cell{r, c}
				for a := range Actions {
					want := palette[inkIce]
					switch m.At(cell.step(a)) {
					case 0:
						want = palette[inkShore]
					case Hole:
						want = palette[inkCrack]
					}
					for depth := range 3 {
						x, y := 14, 14
						switch a {
						case Left:
							x = depth
						case Right:
							x = 27 - depth
						case Up:
							y = depth
						case Down:
							y = 27 - depth
						}
						got := img.RGBAAt(c*28+x, r*28+y)
						if got == palette[inkGrid] {
							continue // the line towards the next cell
						}
						require.Equal(t, want, got, "player %v, cell %v, %v edge, depth %d", player, cell, a, depth)
					}
				}
			}
		}
	}
	plain := draw(t, 28, false, false, Cell{0, 0}, rows...)
	require.Equal(t, palette[inkIce], plain.RGBAAt(28+26, 28+14))
}

func TestEveryKindOfCellLooksDifferent(t *testing.T) {
	envtest.Differ(t, tileKinds, func(kind tileKind, x, y float64) ink { return inkAt(kind, 0, x, y) })
}

func TestPicturesAreFreshAndEqualForEqualStates(t *testing.T) {
	a, b := draw(t, 28, true, true, Cell{2, 2}, island...), draw(t, 28, true, true, Cell{2, 2}, island...)
	require.True(t, bytes.Equal(a.Pix, b.Pix))
	clear(a.Pix)
	c := draw(t, 28, true, true, Cell{2, 2}, island...)
	require.True(t, bytes.Equal(b.Pix, c.Pix), "a picture shares pixels with the renderer")
	require.Equal(t, 4*20, draw(t, 20, true, true, Cell{}, island...).Rect.Dx())
}
