package imagefile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"image"
	"image/color"
	"image/png"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// recorded is a line of testdata/pillow.jsonl: a file, and the pixels that Pillow shows for it.
type recorded struct {
	Name      string
	File, PNG []byte
}

func recordings(t testing.TB) (all []recorded) {
	t.Helper()
	f, err := os.Open("testdata/pillow.jsonl")
	require.NoError(t, err)
	defer f.Close()
	in := bufio.NewScanner(f)
	for in.Scan() {
		var r recorded
		require.NoError(t, json.Unmarshal(in.Bytes(), &r))
		all = append(all, r)
	}
	require.NoError(t, in.Err())
	return all
}

func nrgba(c color.Color) color.NRGBA { return color.NRGBAModel.Convert(c).(color.NRGBA) }

// levels returns the largest and the mean difference of two images of the same size.
func levels(a, b image.Image) (most int, mean float64) {
	r, sum := a.Bounds(), 0
	for y := range r.Dy() {
		for x := range r.Dx() {
			p, q := nrgba(a.At(r.Min.X+x, r.Min.Y+y)), nrgba(b.At(b.Bounds().Min.X+x, b.Bounds().Min.Y+y))
			if p.A == 0 && q.A == 0 {
				continue
			}
			for _, d := range []int{int(p.R) - int(q.R), int(p.G) - int(q.G), int(p.B) - int(q.B), int(p.A) - int(q.A)} {
				most, sum = max(most, d, -d), sum+max(d, -d)
			}
		}
	}
	return most, float64(sum) / float64(3*r.Dx()*r.Dy())
}

// JPEG differs by rounding only: where the inverse DCT rounds Y and Cb to a neighbour, blue differs by 1 + 1.772.
// The expected pixels are those of Pillow 13.0.0 with libjpeg-turbo 3.2.0; see testdata/README.md.
func TestPixelsAreThoseOfPillow(t *testing.T) {
	for _, r := range recordings(t) {
		want, err := png.Decode(bytes.NewReader(r.PNG))
		require.NoError(t, err, r.Name)
		got, err := Decode(r.File)
		require.NoError(t, err, r.Name)
		require.Equal(t, want.Bounds().Size(), got.Bounds().Size(), r.Name)
		most, mean := levels(want, got)
		require.Less(t, mean, 0.15, r.Name)
		allowed := 3
		if strings.Contains(r.Name, "png") || strings.Contains(r.Name, "gif") {
			allowed = 0
		}
		require.LessOrEqual(t, most, allowed, r.Name)
	}
}
