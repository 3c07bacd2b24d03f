package imagefile

import "testing"

// Whatever is decoded has as many pixels as its header says.
func FuzzDecode(f *testing.F) {
	for _, r := range recordings(f) {
		f.Add(r.File)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		width, height, err := Size(raw)
		if err != nil || width*height > 1<<16 {
			return
		}
		im, err := Decode(raw)
		if err != nil {
			return
		}
		b := im.Bounds()
		if b.Min.X != 0 || b.Min.Y != 0 || b.Dx()*b.Dy() != width*height {
			t.Fatalf("%v, the header says %d by %d", b, width, height)
		}
		im.At(b.Max.X-1, b.Max.Y-1)
	})
}
