package processor

import (
	"fmt"
	"image"
	"image/color"
)

// RGB returns the pixels of an image as interleaved 8-bit RGB, which is all that a processor reads
// of it. An error wraps ErrImage.
func RGB(img image.Image) (out []byte, err error) {
	defer recoverImage(&err)
	b := img.Bounds()
	out = make([]byte, 3*b.Dx()*b.Dy())
	rgb(out, img)
	return out, nil
}

// recoverImage converts a panic of the methods of a caller's image to an error: the image may be a nil pointer, have
// too few pixels, or a palette with a colour of nil.
func recoverImage(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("processor: %w: it cannot be read: %v", ErrImage, r)
	}
}

// rgb writes the image as interleaved 8-bit RGB. Transparency is composited over
// white with Pillow's integer arithmetic, grey is repeated, palettes are looked up,
// and of 16 bits the upper 8 are used.
func rgb(dst []byte, img image.Image) {
	b := img.Bounds()
	width := b.Dx()
	switch m := img.(type) {
	case *image.NRGBA:
		rows(dst, b, func(out []byte, y int) {
			in := m.Pix[m.PixOffset(b.Min.X, y):][:4*width]
			for x := range width {
				over(out[3*x:3*x+3], in[4*x], in[4*x+1], in[4*x+2], in[4*x+3])
			}
		})
	case *image.RGBA:
		rows(dst, b, func(out []byte, y int) {
			in := m.Pix[m.PixOffset(b.Min.X, y):][:4*width]
			for x := range width {
				p, o := in[4*x:4*x+4], out[3*x:3*x+3]
				if p[3] == 255 {
					o[0], o[1], o[2] = p[0], p[1], p[2]
				} else {
					n := color.NRGBAModel.Convert(color.RGBA{p[0], p[1], p[2], p[3]}).(color.NRGBA)
					over(o, n.R, n.G, n.B, n.A)
				}
			}
		})
	case *image.Gray:
		rows(dst, b, func(out []byte, y int) {
			in := m.Pix[m.PixOffset(b.Min.X, y):][:width]
			for x, v := range in {
				o := out[3*x : 3*x+3]
				o[0], o[1], o[2] = v, v, v
			}
		})
	case *image.Paletted:
		var table [256][3]byte
		for i, c := range m.Palette[:min(len(m.Palette), 256)] {
			flatten(table[i][:], c)
		}
		rows(dst, b, func(out []byte, y int) {
			in := m.Pix[m.PixOffset(b.Min.X, y):][:width]
			for x, i := range in {
				copy(out[3*x:3*x+3], table[i][:])
			}
		})
	case *image.YCbCr:
		rows(dst, b, func(out []byte, y int) {
			for x := range width {
				c := m.YCbCrAt(b.Min.X+x, y)
				o := out[3*x : 3*x+3]
				o[0], o[1], o[2] = color.YCbCrToRGB(c.Y, c.Cb, c.Cr)
			}
		})
	default:
		rows(dst, b, func(out []byte, y int) {
			for x := range width {
				flatten(out[3*x:3*x+3], img.At(b.Min.X+x, y))
			}
		})
	}
}

func rows(dst []byte, b image.Rectangle, row func(out []byte, y int)) {
	n := 3 * b.Dx()
	for i := range b.Dy() {
		row(dst[i*n:(i+1)*n], b.Min.Y+i)
	}
}

// flatten composites any colour over white.
func flatten(dst []byte, c color.Color) {
	if n, ok := c.(color.NRGBA); ok {
		over(dst, n.R, n.G, n.B, n.A)
		return
	}
	n := color.NRGBA64Model.Convert(c).(color.NRGBA64)
	over(dst, byte(n.R>>8), byte(n.G>>8), byte(n.B>>8), byte(n.A>>8))
}

// over is Pillow's alpha_composite of one pixel on opaque white.
func over(dst []byte, r, g, b, a byte) {
	switch a {
	case 255:
		dst[0], dst[1], dst[2] = r, g, b
	case 0:
		dst[0], dst[1], dst[2] = 255, 255, 255
	default:
		dst[0], dst[1], dst[2] = blend(r, a), blend(g, a), blend(b, a)
	}
}

// blend divides by 255 in 7 extra bits, with the usual shift trick.
func blend(v, a byte) byte {
	t := (uint32(v)*uint32(a) + 255*(255-uint32(a))) << 7
	t += 0x80 << 7
	return byte((t>>8 + t) >> 8 >> 7)
}
