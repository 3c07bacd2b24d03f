package processor

import (
	"image"
	"image/color"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAResizedImageIsProcessedToTheSamePatches, and resizing it again changes nothing.
func TestAResizedImageIsProcessedToTheSamePatches(t *testing.T) {
	p, err := New(Qwen25VL())
	require.NoError(t, err)
	for _, size := range [][2]int{{96, 96}, {130, 57}, {20, 20}, {28, 56}, {301, 40}} {
		im := image.NewNRGBA(image.Rect(0, 0, size[0], size[1]))
		for y := range size[1] {
			for x := range size[0] {
				im.SetNRGBA(x, y, color.NRGBA{uint8(x * 7), uint8(y * 5), uint8(x * y), uint8(255 - x%3*100)})
			}
		}
		var want, got Patches
		require.NoError(t, p.Patches(&want, im))
		small, grid, err := p.Resized(im)
		require.NoError(t, err)
		require.Equal(t, want.Grid, grid)
		require.NoError(t, p.Patches(&got, small))
		require.Equal(t, want, got, "%v", size)
		again, _, err := p.Resized(small)
		require.NoError(t, err)
		require.Equal(t, small, again)
	}
	_, _, err = p.Resized(image.NewNRGBA(image.Rect(0, 0, 0, 3)))
	require.ErrorIs(t, err, ErrImage)
}

func TestImagesWhoseMethodsPanicAreRefused(t *testing.T) {
	p := made(t, small())
	for _, img := range []image.Image{
		nil, (*image.NRGBA)(nil), &image.NRGBA{Stride: 4, Rect: image.Rect(0, 0, 20, 20)},
		image.NewPaletted(image.Rect(0, 0, 20, 20), color.Palette{nil}),
	} {
		require.ErrorIs(t, p.Patches(&Patches{}, img), ErrImage, "%T", img)
		_, _, err := p.Resized(img)
		require.ErrorIs(t, err, ErrImage, "%T", img)
		_, err = RGB(img)
		require.ErrorIs(t, err, ErrImage, "%T", img)
	}
}
