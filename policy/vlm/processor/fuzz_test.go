package processor

import (
	"bytes"
	"encoding/json"
	"image/png"
	"testing"
)

// Whatever is read is within the limits, and can be processed or is refused.
func FuzzDecodeImage(f *testing.F) {
	var b bytes.Buffer
	if err := png.Encode(&b, picture(5, 3)); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add(header(50000, 50000))
	f.Add([]byte("\xff\xd8\xff"))
	p, err := New(small())
	if err != nil {
		f.Fatal(err)
	}
	limits := Limits{Bytes: 1 << 16, Side: 64, Pixels: 2048}
	f.Fuzz(func(t *testing.T, raw []byte) {
		img, err := DecodeImage(bytes.NewReader(raw), limits)
		if err != nil {
			return
		}
		if b := img.Bounds(); b.Dx() > limits.Side || b.Dy() > limits.Side || b.Dx()*b.Dy() > limits.Pixels {
			t.Fatalf("%v with limits %+v", b, limits)
		}
		var out Patches
		if err := p.Patches(&out, img); err == nil && len(out.Pix) != out.Grid.Patches()*p.PixDim() {
			t.Fatalf("%d bytes for %+v", len(out.Pix), out.Grid)
		}
	})
}

// A size that is accepted has sides that are multiples of the factor, and an
// area above the upper bound only if a side is a single factor.
func FuzzSmartSize(f *testing.F) {
	f.Add(300, 512, 28, 3136, 1003520)
	f.Add(1, 200, 32, 1, 2)
	f.Add(65536, 65536, 1, 1, 1<<28)
	f.Fuzz(func(t *testing.T, height, width, factor, low, high int) {
		if factor > maxFactor || high > maxPixels || low > high {
			return
		}
		h, w, err := SmartSize(height, width, factor, low, high)
		if err != nil {
			return
		}
		if h%factor != 0 || w%factor != 0 || h < 1 || w < 1 {
			t.Fatalf("%d by %d with factor %d", h, w, factor)
		}
		if h*w > high && h > factor && w > factor && low*4 < high {
			t.Fatalf("%d by %d is more than %d pixels", h, w, high)
		}
	})
}

// A configuration file is refused or gives settings that work.
func FuzzConfig(f *testing.F) {
	f.Add([]byte(`{"min_pixels":3136,"max_pixels":23520,"patch_size":14}`))
	f.Add([]byte(`{"size":{"shortest_edge":1,"longest_edge":9}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var file fileConfig
		if json.Unmarshal(raw, &file) != nil {
			return
		}
		c, err := file.config()
		if err != nil || c.Validate() != nil {
			return
		}
		p, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		if g, err := p.Grid(30, 20); err == nil && p.Tokens(g) < 1 {
			t.Fatalf("%+v: %+v", c, g)
		}
	})
}
