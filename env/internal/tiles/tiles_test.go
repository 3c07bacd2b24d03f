package tiles

import (
	"image"
	"image/color"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAtlasDrawsOnceAndStartsAnewWhenFull(t *testing.T) {
	var a Atlas[string]
	drawn := 0
	get := func(key string, size int) []byte {
		return a.Get(key, size, func(x, y int) color.RGBA {
			if x == 0 && y == 0 {
				drawn++
			}
			return color.RGBA{uint8(x), uint8(y), 3, 255}
		})
	}
	require.Equal(t, []byte{0, 0, 3, 255, 1, 0, 3, 255, 0, 1, 3, 255, 1, 1, 3, 255}, get("a", 2))
	get("a", 2)
	require.Equal(t, 1, drawn)
	a.bytes = maxBytes + 1
	get("b", 2)
	require.Len(t, a.tiles, 1)
	require.Equal(t, 16, a.bytes)
	get("a", 2)
	require.Equal(t, 3, drawn)
}

func TestPasteFillsItsCellAndNothingElse(t *testing.T) {
	img := image.NewRGBA(image.Rect(0, 0, 4, 4))
	Paste(img, []byte{1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4}, 2, 1, 0)
	for y := range 4 {
		for x := range 4 {
			want := uint8(0)
			if x < 2 && y >= 2 {
				want = uint8(1 + x + 2*(y-2))
			}
			require.Equal(t, want, img.RGBAAt(x, y).R, "%d,%d", x, y)
		}
	}
}
