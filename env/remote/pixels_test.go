package remote

import (
	"fmt"
	"image"
	"image/draw"
)

// pixelText makes pixels comparable.
func pixelText(img image.Image) string {
	m := image.NewNRGBA(img.Bounds())
	draw.Draw(m, m.Rect, img, m.Rect.Min, draw.Src)
	return fmt.Sprintf("%v %x", m.Rect, m.Pix)
}
