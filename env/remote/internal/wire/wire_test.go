package wire

import (
	"bytes"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
)

func TestBoundaryIsFoundWhereverItStands(t *testing.T) {
	for in, want := range map[string]string{
		`multipart/form-data; boundary=B`: "B", `multipart/form-data; boundary="a b"`: "a b",
		`boundary=B; multipart/mixed`:                         "B",
		`multipart/mixed; charset=utf-8; BOUNDARY= "B" ; x=y`: "B", `multipart/mixed;boundary=;boundary=C`: "C",
	} {
		got, err := Boundary(in)
		require.NoError(t, err, in)
		assert.Equal(t, want, got, in)
	}
	for _, in := range []string{"", "multipart/form-data", "multipart/mixed; boundary=", `multipart/mixed; boundary=""`,
		"multipart/mixed; xboundary=B",
		"multipart/mixed; boundary=" + strings.Repeat("x", 201)} {
		_, err := Boundary(in)
		assert.EqualError(t, err, "Missing boundary in Content-Type: "+in)
	}
}

func TestDecodeReadsWhatEncodeWrites(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 5 {
		images := make([][]byte, n)
		for i := range images {
			images[i] = make([]byte, 1+r.IntN(500))
			for k := range images[i] {
				images[i][k] = byte(r.Uint32())
			}
			// An end that a decoder which trims too much would lose.
			images[i] = append(images[i], " \r\n--"[i%5:]...)
		}
		b := NewBoundary()
		m, err := Decode(ContentType("multipart/mixed", b), Encode(b, []byte(`{"n": 1}`), images, "image/png"), n+1)
		require.NoError(t, err)
		assert.True(t, m.Closed)
		assert.Equal(t, map[string]any{"n": int64(1)}, m.Data)
		require.Len(t, m.Images, n)
		for i, img := range m.Images {
			assert.Equal(t, images[i], img)
		}
	}
}

func TestDecodeIsAsLenientAsTheOriginal(t *testing.T) {
	const json = "Content-Type: application/json\r\n\r\n"
	for _, c := range []struct {
		name, body string
		data       map[string]any
		images     int
		closed     bool
	}{
		{"nothing", "", map[string]any{}, 0, false},
		{"only the end", "--B--\r\n", map[string]any{}, 0, true},
		{"no end", "--B\r\n" + json + `{"a": 1}`, map[string]any{"a": int64(1)}, 0, false},
		{"preamble and epilogue", "hi\r\n--B\r\n" + json + "{}\r\n--B--\r\nbye", map[string]any{}, 0, true},
		{"the last JSON counts", "--B\r\n" + json + `{"a": 1}` + "\r\n--B\r\n" + json + `{"a": 2}` + "\r\n--B--",
			map[string]any{"a": int64(2)}, 0, true},
		{"a value", "--B\r\n" + json + "[1]\r\n--B--", map[string]any{"_data": []any{int64(1)}}, 0, true},
		{"no JSON", "--B\r\n" + json + "{x\xff\r\n--B--", map[string]any{"_data_raw": "{x"}, 0, true},
		{"headers in any order and case", "--B\r\nX: 1\r\nCONTENT-TYPE:  Application/JSON; charset=x\r\n\r\n{}\r\n--B--",
			map[string]any{}, 0, true},
		{"other parts", "--B\r\nContent-Type: text/plain\r\n\r\nx\r\n--B\r\n\r\n\r\ny\r\n--B\r\nContent-Type: image/webp\r\n\r\nz\r\n--B--", map[string]any{}, 1, true},
		{"an empty part", "--B\r\nContent-Type: image/png\r\n\r\n\r\n--B--", map[string]any{}, 0, true},
		{"space before headers", "--B\r\n\r\n  " + json + `{"a": 1}` + "\r\n--B--", map[string]any{"a": int64(1)}, 0, true},
		{"bare line feeds", "--B\nContent-Type: application/json\n\n{}\n--B--", map[string]any{}, 0, true},
	} {
		m, err := Decode("multipart/form-data; boundary=B", []byte(c.body), 10)
		require.NoError(t, err, c.name)
		assert.Equal(t, c.data, m.Data, c.name)
		assert.Len(t, m.Images, c.images, c.name)
		assert.Equal(t, c.closed, m.Closed, c.name)
	}
	_, err := Decode("multipart/form-data; boundary=B", []byte(strings.Repeat("--B\r\nA: b\r\n\r\nx\r\n", 4)), 3)
	assert.ErrorIs(t, err, ErrLimit)
}

func TestNamesOfSessionsAndBoundariesDiffer(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		id := NewID()
		assert.Regexp(t, "^[0-9a-f]{32}$", id)
		assert.False(t, seen[id])
		seen[id] = true
	}
	assert.Regexp(t, "^gym_env_[0-9a-f]{32}$", NewBoundary())
}

// pictures of every kind that decoders produce.
func pictures() map[string]image.Image {
	rect := image.Rect(0, 0, 5, 3)
	fill := func(set func(x, y int, c color.Color)) {
		for y := range rect.Dy() {
			for x := range rect.Dx() {
				set(x, y, color.NRGBA{uint8(x * 50), uint8(y * 80), 200, 255})
			}
		}
	}
	rgba, gray, deep, clear := image.NewRGBA(rect), image.NewGray(rect), image.NewRGBA64(rect), image.NewNRGBA(rect)
	flat := image.NewPaletted(rect, color.Palette{color.Black, color.White, color.NRGBA{1, 2, 3, 255}})
	fill(rgba.Set)
	fill(gray.Set)
	fill(deep.Set)
	fill(flat.Set)
	clear.Set(1, 1, color.NRGBA{10, 20, 30, 40})
	return map[string]image.Image{"rgba": rgba, "gray": gray, "deep": deep, "clear": clear, "flat": flat}
}

func TestImagesKeepTheirPixels(t *testing.T) {
	for name, img := range pictures() {
		b, err := EncodeImage(img, PNG)
		require.NoError(t, err, name)
		room := 100
		got, err := DecodeImage(b, &room)
		require.NoError(t, err, name)
		assert.Equal(t, 100-15, room)
		switch got.(type) {
		case *image.RGBA, *image.NRGBA:
		default:
			t.Errorf("%s became %T", name, got)
		}
		for y := range 3 {
			for x := range 5 {
				assert.Equal(t, color.NRGBAModel.Convert(img.At(x, y)), color.NRGBAModel.Convert(got.At(x, y)), "%s %d %d", name, x,
					y)
			}
		}
	}
	b, err := EncodeImage(pictures()["rgba"], JPEG)
	require.NoError(t, err)
	room := 15
	got, err := DecodeImage(b, &room)
	require.NoError(t, err)
	assert.IsType(t, &image.RGBA{}, got)
	assert.Zero(t, room)
}

func TestImagesThatAreNotDecoded(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, 10, 10))))
	room := 99
	_, err := DecodeImage(b.Bytes(), &room)
	testkit.Error(t, err, ErrLimit, "an image of 10×10 pixels, at most 99 more pixels are allowed")
	assert.Equal(t, 99, room)
	room = 100
	require.NoError(t, CheckImage(b.Bytes(), &room))
	assert.Zero(t, room)
	room = 100_000
	for n := range b.Len() {
		_, err := DecodeImage(b.Bytes()[:n], &room)
		assert.ErrorIs(t, err, ErrFormat, "%d of %d bytes", n, b.Len())
	}
	b.Reset()
	require.NoError(t, jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, 10, 10)), nil))
	_, err = DecodeImage(b.Bytes()[:b.Len()/2], &room)
	assert.ErrorIs(t, err, ErrFormat)
	for _, img := range []image.Image{nil, image.NewGray(image.Rect(0, 0, 0, 3))} {
		_, err := EncodeImage(img, PNG)
		assert.ErrorIs(t, err, ErrFormat)
	}
}

// Whatever comes, decoding ends without a panic and within its limits, and the
// parts can be sent on.
func FuzzDecode(f *testing.F) {
	b := "gym_env_0123456789abcdef0123456789abcdef"
	img, err := EncodeImage(image.NewRGBA(image.Rect(0, 0, 2, 2)), PNG)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(ContentType("multipart/mixed", b), Encode(b, []byte(`{"obs": "<image>"}`), [][]byte{img}, "image/png"))
	f.Add("multipart/form-data; boundary=B", []byte("x--B\r\nContent-Type: application/json\r\n\r\n[1]\r\n--B--\r\n"))
	f.Add("boundary=-", []byte("-----\r\n\r\n---"))
	f.Fuzz(func(t *testing.T, kind string, body []byte) {
		m, err := Decode(kind, body, 5)
		if err != nil {
			return
		}
		if m.Data == nil {
			t.Fatal("no data")
		}
		if len(m.Images) > 5 {
			t.Fatalf("%d images", len(m.Images))
		}
		room := 10_000
		for _, part := range m.Images {
			if got, err := DecodeImage(part, &room); err == nil {
				if n := got.Bounds().Dx() * got.Bounds().Dy(); n > 10_000 || room < 0 {
					t.Fatalf("%d pixels, %d left", n, room)
				}
			}
		}
		encoded := m.Images
		fresh := NewBoundary()
		sent := Encode(fresh, []byte("{}"), encoded, "image/png")
		again, err := Decode(ContentType("multipart/mixed", fresh), sent, 6)
		if err != nil || len(again.Images) != len(encoded) {
			t.Fatalf("sent on: %d images, %v", len(again.Images), err)
		}
		for i := range encoded {
			if !bytes.Equal(encoded[i], again.Images[i]) {
				t.Fatalf("image %d: %q became %q", i, encoded[i], again.Images[i])
			}
		}
	})
}
