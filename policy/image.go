package policy

import (
	"crypto/sha256"
	"encoding/binary"
	"image"
	"image/draw"
)

// HashImage returns Image.Hash of an image: SHA-256 of its width and height, as 64-bit
// little-endian numbers, and its 8-bit RGBA pixels with premultiplied alpha. That of nil is 0.
func HashImage(im image.Image) [32]byte {
	if im == nil {
		return [32]byte{}
	}
	b := im.Bounds()
	rgba, ok := im.(*image.RGBA)
	if !ok || rgba.Stride != 4*b.Dx() {
		rgba = image.NewRGBA(image.Rect(0, 0, b.Dx(), b.Dy()))
		draw.Draw(rgba, rgba.Bounds(), im, b.Min, draw.Src)
	}
	h := sha256.New()
	var size [16]byte
	binary.LittleEndian.PutUint64(size[:], uint64(b.Dx()))
	binary.LittleEndian.PutUint64(size[8:], uint64(b.Dy()))
	h.Write(size[:])
	h.Write(rgba.Pix[:4*b.Dx()*b.Dy()])
	return [32]byte(h.Sum(nil))
}
