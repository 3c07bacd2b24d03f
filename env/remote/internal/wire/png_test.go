package wire

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// decodedPNG reads a PNG with the standard library.
func decodedPNG(t testing.TB, data []byte) *image.NRGBA {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(data))
	require.NoError(t, err)
	m := image.NewNRGBA(img.Bounds())
	draw.Draw(m, m.Bounds(), img, img.Bounds().Min, draw.Src)
	return m
}

// frame is a picture of random colours in which a pixel repeats its neighbour to
// the left or above so many times of ten.
func frame(r *rand.Rand, w, h, left, above int) *image.NRGBA {
	m := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			switch k := r.IntN(10); {
			case k < left && x > 0:
				m.SetNRGBA(x, y, m.NRGBAAt(x-1, y))
			case k < left+above && y > 0:
				m.SetNRGBA(x, y, m.NRGBAAt(x, y-1))
			default:
				v := r.Uint32()
				m.SetNRGBA(x, y, color.NRGBA{uint8(v), uint8(v >> 8), uint8(v >> 16), 255})
			}
		}
	}
	return m
}

func TestQuickPicturesAreLossless(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, size := range [][2]int{{1, 1}, {1, 9}, {9, 1}, {2, 2}, {85, 3}, {86, 3}, {87, 3}, {172, 4}, {173, 4}, {300, 20},
		{10922, 2}} {
		for _, like := range [][2]int{{0, 0}, {9, 0}, {0, 9}, {5, 4}, {10, 0}, {0, 10}} {
			m := frame(r, size[0], size[1], like[0], like[1])
			data, ok := appendPNG(nil, m.Pix, m.Stride, m.Rect.Size())
			require.True(t, ok)
			require.Equal(t, m.Pix, decodedPNG(t, data).Pix, "%v %v", size, like)
		}
	}
}

func TestQuickPicturesMayBePartsOfLargerOnes(t *testing.T) {
	m := frame(rand.New(rand.NewPCG(7, 8)), 40, 40, 4, 4)
	part := m.SubImage(image.Rect(3, 5, 21, 17)).(*image.NRGBA)
	data, ok := quickPNG(part)
	require.True(t, ok)
	got := decodedPNG(t, data)
	for y := range 12 {
		for x := range 18 {
			require.Equal(t, m.NRGBAAt(x+3, y+5), got.NRGBAAt(x, y))
		}
	}
}

func TestPicturesThatAreNotQuickAreEncodedAllTheSame(t *testing.T) {
	clear := frame(rand.New(rand.NewPCG(9, 9)), 12, 8, 5, 4)
	for _, at := range []image.Point{{0, 0}, {5, 0}, {0, 4}, {11, 7}} {
		m := image.NewNRGBA(clear.Rect)
		copy(m.Pix, clear.Pix)
		m.SetNRGBA(at.X, at.Y, color.NRGBA{1, 2, 3, 254})
		_, ok := quickPNG(m)
		require.False(t, ok, "%v is not opaque", at)
		data, err := EncodeImage(m, PNG)
		require.NoError(t, err)
		require.Equal(t, m.Pix, decodedPNG(t, data).Pix)
	}
	wide := image.NewNRGBA(image.Rect(0, 0, maxBack/pixelBytes+1, 1))
	_, ok := quickPNG(wide)
	require.False(t, ok)
	_, ok = quickPNG(image.NewGray(image.Rect(0, 0, 2, 2)))
	require.False(t, ok)
}

func FuzzQuickPNG(f *testing.F) {
	f.Add([]byte{1, 2, 3, 1, 2, 3, 1, 2, 3, 4, 5, 6}, uint8(2))
	f.Add(bytes.Repeat([]byte{7}, 900), uint8(30))
	f.Fuzz(func(t *testing.T, colours []byte, width uint8) {
		w := int(width) + 1
		h := len(colours) / w
		if h == 0 {
			return
		}
		m := image.NewNRGBA(image.Rect(0, 0, w, h))
		for i := range w * h {
			copy(m.Pix[4*i:], []byte{colours[i], colours[i] >> 4, colours[i] << 6, 255})
		}
		data, ok := quickPNG(m)
		require.True(t, ok)
		require.Equal(t, m.Pix, decodedPNG(t, data).Pix)
	})
}
