// Package imagefile decodes files of images to the pixels that Pillow shows for them: JPEG with
// the rounding of libjpeg and its interpolation of chroma, CMYK converted to RGB, the orientation
// of EXIF applied, and the first frame of a GIF on its canvas.
package imagefile

import (
	"bytes"
	"fmt"
	"image"
	"image/gif"
	"image/png"
)

// Format is a format of image files.
type Format string

// The formats.
const (
	PNG  Format = "PNG"
	JPEG Format = "JPEG"
	GIF  Format = "GIF"
)

// FormatOf returns the format that the first bytes of a file name, "" if it is none of them.
func FormatOf(raw []byte) Format {
	switch {
	case bytes.HasPrefix(raw, []byte("\x89PNG\r\n\x1a\n")):
		return PNG
	case bytes.HasPrefix(raw, []byte("\xff\xd8")):
		return JPEG
	case bytes.HasPrefix(raw, []byte("GIF87a")), bytes.HasPrefix(raw, []byte("GIF89a")):
		return GIF
	}
	return ""
}

// Size returns the width and the height in a file's header, in pixels, before EXIF's orientation
// is applied. It does not read the pixels.
func Size(raw []byte) (width, height int, err error) {
	var c image.Config
	switch FormatOf(raw) {
	case PNG:
		c, err = png.DecodeConfig(bytes.NewReader(raw))
	case JPEG:
		return jpegSize(raw)
	case GIF:
		c, err = gif.DecodeConfig(bytes.NewReader(raw))
	default:
		err = unknown(raw)
	}
	return c.Width, c.Height, err
}

// Check returns the number of pixels of a file. One whose header says that a side has none or more than maxSide, or
// that there are more than maxPixels, is an error.
func Check(raw []byte, maxSide, maxPixels int) (pixels int, err error) {
	width, height, err := Size(raw)
	if err != nil {
		return 0, err
	}
	if min(width, height) < 1 || max(width, height) > maxSide || width > maxPixels/height {
		return 0, fmt.Errorf("the image has %d by %d pixels, must have sides from 1 to %d and at most %d pixels", width,
			height, maxSide, maxPixels)
	}
	return width * height, nil
}

// Decode decodes a file. It allocates memory for as many pixels as Check or Size returns, which the
// caller asks first.
func Decode(raw []byte) (image.Image, error) {
	switch FormatOf(raw) {
	case PNG:
		im, err := png.Decode(bytes.NewReader(raw))
		if err != nil {
			return nil, err
		}
		return turned(im, orientation(pngExif(raw))), nil
	case JPEG:
		return decodeJPEG(raw)
	case GIF:
		return decodeGIF(raw)
	}
	return nil, unknown(raw)
}

func unknown(raw []byte) error {
	return fmt.Errorf("unknown format: the file begins with %q, must be PNG, JPEG or GIF", raw[:min(len(raw), 8)])
}

// decodeGIF returns the first frame at its place on the canvas. The rest of the canvas is
// transparent if the frame has a transparent colour, and has the first colour of its palette otherwise.
func decodeGIF(raw []byte) (image.Image, error) {
	c, err := gif.DecodeConfig(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	im, err := gif.Decode(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	frame, canvas := im.(*image.Paletted), image.Rect(0, 0, c.Width, c.Height)
	if frame.Rect == canvas {
		return frame, nil
	}
	out := image.NewPaletted(canvas, frame.Palette)
	for i, colour := range frame.Palette {
		if _, _, _, alpha := colour.RGBA(); alpha == 0 {
			for k := range out.Pix {
				out.Pix[k] = byte(i)
			}
			break
		}
	}
	b := frame.Rect
	for y := b.Min.Y; y < b.Max.Y; y++ {
		copy(out.Pix[out.PixOffset(b.Min.X, y):], frame.Pix[frame.PixOffset(b.Min.X, y):][:b.Dx()])
	}
	return out, nil
}
