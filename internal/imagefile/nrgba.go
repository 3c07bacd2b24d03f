package imagefile

import (
	"image"
	"image/draw"
)

// NRGBA converts an image to the form in which images are compared and stored: its pixels alone, row by row, from
// (0, 0). The result may share memory with im.
func NRGBA(im image.Image) *image.NRGBA {
	b := im.Bounds()
	out := &image.NRGBA{Stride: 4 * b.Dx(), Rect: image.Rect(0, 0, b.Dx(), b.Dy())}
	switch im := im.(type) {
	case *image.NRGBA:
		if b == out.Rect && im.Stride == out.Stride {
			out.Pix = im.Pix
		}
	case *image.RGBA:
		if b == out.Rect && im.Stride == out.Stride && im.Opaque() {
			out.Pix = im.Pix
		}
	}
	if out.Pix == nil {
		out = image.NewNRGBA(out.Rect)
		draw.Draw(out, out.Rect, im, b.Min, draw.Src)
	}
	out.Pix = out.Pix[:out.Stride*b.Dy()] // a part of another image has the rows below it, too
	return out
}
