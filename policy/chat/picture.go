package chat

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"image/color"
	stddraw "image/draw"
	"image/jpeg"
	"image/png"

	"golang.org/x/image/draw"
)

// picture is an encoded image.
type picture struct {
	mime          string
	data          string // base64
	width, height int
}

// encode compresses an image. A panic of the image's methods, such as those of a
// nil pointer, is an error.
func (p *Pictures) encode(im image.Image) (_ *picture, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the image cannot be read: %v", r)
		}
	}()
	if im == nil || im.Bounds().Empty() {
		return nil, errors.New("the image is empty")
	}
	im = p.shrink(im)
	var b bytes.Buffer
	mime := "image/png"
	if p.JPEG > 0 {
		mime = "image/jpeg"
		err = jpeg.Encode(&b, onWhite(im), &jpeg.Options{Quality: p.JPEG})
	} else {
		err = png.Encode(&b, im)
	}
	if err != nil {
		return nil, err
	}
	size := im.Bounds().Size()
	return &picture{mime, base64.StdEncoding.EncodeToString(b.Bytes()), size.X, size.Y}, nil
}

// shrink scales an image down to MaxSide, with its aspect ratio, using the
// Catmull-Rom kernel.
func (p *Pictures) shrink(im image.Image) image.Image {
	size := im.Bounds().Size()
	long := max(size.X, size.Y)
	if p.MaxSide == 0 || long <= p.MaxSide {
		return im
	}
	side := func(n int) int { return max(1, (n*p.MaxSide+long/2)/long) }
	out := image.NewRGBA(image.Rect(0, 0, side(size.X), side(size.Y)))
	draw.CatmullRom.Scale(out, out.Bounds(), im, im.Bounds(), draw.Src, nil)
	return out
}

// onWhite puts an image that may be transparent on white.
func onWhite(im image.Image) image.Image {
	if o, ok := im.(interface{ Opaque() bool }); ok && o.Opaque() {
		return im
	}
	out := image.NewRGBA(im.Bounds())
	stddraw.Draw(out, out.Bounds(), image.NewUniform(color.White), image.Point{}, stddraw.Src)
	stddraw.Draw(out, out.Bounds(), im, im.Bounds().Min, stddraw.Over)
	return out
}
