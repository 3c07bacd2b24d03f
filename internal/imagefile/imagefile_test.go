package imagefile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"os"
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

// levels returns the largest difference of two images of the same size.
func levels(a, b image.Image) (most int) {
	r := a.Bounds()
	for y := range r.Dy() {
		for x := range r.Dx() {
			p, q := nrgba(a.At(r.Min.X+x, r.Min.Y+y)), nrgba(b.At(b.Bounds().Min.X+x, b.Bounds().Min.Y+y))
			if p.A == 0 && q.A == 0 {
				continue
			}
			for _, d := range []int{int(p.R) - int(q.R), int(p.G) - int(q.G), int(p.B) - int(q.B), int(p.A) - int(q.A)} {
				most = max(most, d, -d)
			}
		}
	}
	return most
}

// The expected pixels are those of Pillow 13.0.0 with libjpeg-turbo 3.2.0; see testdata/README.md.
func TestPixelsAreThoseOfPillow(t *testing.T) {
	for _, r := range recordings(t) {
		want, err := png.Decode(bytes.NewReader(r.PNG))
		require.NoError(t, err, r.Name)
		got, err := Decode(r.File)
		require.NoError(t, err, r.Name)
		require.Equal(t, want.Bounds().Size(), got.Bounds().Size(), r.Name)
		require.Zero(t, levels(want, got), r.Name)
	}
}

// TestDamagedJPEGsAreErrors: whatever is missing or too much, and files of another process.
func TestDamagedJPEGsAreErrors(t *testing.T) {
	files := map[string][]byte{}
	for _, r := range recordings(t) {
		files[r.Name] = r.File
	}
	type change = func(raw []byte) []byte
	at := func(raw []byte, marker byte) int { return bytes.Index(raw, []byte{0xff, marker}) }
	put := func(marker byte, offset int, values ...byte) change {
		return func(raw []byte) []byte { copy(raw[at(raw, marker)+offset:], values); return raw }
	}
	repeat := func(raw []byte) []byte { // the first scan
		scan := raw[at(raw, sos):]
		scan = scan[:at(scan, dht)]
		return append(raw[:at(raw, sos):at(raw, sos)], bytes.Repeat(scan, maxScans+1)...)
	}
	frame := func(raw []byte) []byte { n := at(raw, sof0); return append(raw[:n+19:n+19], raw[n:]...) }
	const plain, restarts, progressive = "420 35x27", "restarts 420 50x33", "progressive 420 33x19"
	for want, c := range map[string]struct {
		file   string
		change change
	}{
		"the compressed data end too early":  {plain, func(raw []byte) []byte { return raw[:len(raw)-40] }},
		"bad length":                         {plain, func(raw []byte) []byte { return raw[:at(raw, sof0)+6] }},
		"no scan":                            {plain, func(raw []byte) []byte { return raw[:at(raw, sos)] }},
		"no table of quantisation":           {plain, put(dqt, 1, 0xfe)},
		"a second frame":                     {plain, frame},
		"only Huffman codes":                 {plain, put(sof0, 1, 0xc9)},
		"12 bits for each sample, must be 8": {plain, put(sof0, 4, 12)},
		"do not divide":                      {plain, put(sof0, 11, 0x32, 0, 2, 0x21)},
		"the size is 0 by 27":                {plain, put(sof0, 7, 0, 0)},
		"a restart marker is missing":        {restarts, put(0xd1, 1, 0xd5)},
		"unknown or repeated component 1":    {plain, put(sos, 7, 1)},
		"a scan has coefficients 0 to 7":     {progressive, put(sos, 12, 7)},
		"more than 256 scans":                {progressive, repeat},
		"must be 1, 3 or 4":                  {plain, put(sof0, 3, 14, 8, 0, 27, 0, 35, 2)},
	} {
		_, err := Decode(c.change(bytes.Clone(files[c.file])))
		require.ErrorContains(t, err, want)
	}
	_, err := Decode([]byte("BM"))
	require.ErrorContains(t, err, `unknown format: the file begins with "BM"`)
}

// A part of a picture is compared by its own pixels, also if the whole picture has as wide rows.
func TestPartsOfPicturesAreTheirOwnPixels(t *testing.T) {
	box := image.Rect(0, 0, 2, 3)
	for _, im := range []draw.Image{image.NewRGBA(box), image.NewNRGBA(box)} {
		for y := range 3 {
			im.Set(0, y, color.RGBA{1, 2, 3, 255})
			im.Set(1, y, color.White)
		}
		part := im.(interface {
			SubImage(image.Rectangle) image.Image
		}).SubImage(image.Rect(0, 0, 2, 2))
		want := image.NewNRGBA(image.Rect(0, 0, 2, 2))
		draw.Draw(want, want.Rect, part, image.Point{}, draw.Src)
		require.Equal(t, want, NRGBA(part), "%T", im)
	}
}
