package remote

import (
	"crypto/sha256"
	"fmt"
	"image"
	"image/draw"
)

// pixelText makes images comparable: their sizes and a hash of their pixels.
func pixelText(img image.Image) string {
	m := image.NewRGBA(img.Bounds())
	draw.Draw(m, m.Rect, img, m.Rect.Min, draw.Src)
	return fmt.Sprintf("%v %x", m.Rect, sha256.Sum256(m.Pix))
}
