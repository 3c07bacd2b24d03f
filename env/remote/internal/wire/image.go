package wire

import (
	"bytes"
	"fmt"
	"image"
	"image/draw"
	"image/jpeg"
	"image/png"
	"sync"
)

// Format is how images are encoded.
type Format string

// The formats.
const (
	PNG  Format = "png"
	JPEG Format = "jpeg"
)

// Type returns the format's media type.
func (f Format) Type() string { return "image/" + string(f) }

// Quality of JPEG images, the one of the original's library.
const quality = 75

// pngBuffers lets encoders of consecutive images share their tables.
type pngBuffers struct{ pool sync.Pool }

func (p *pngBuffers) Get() *png.EncoderBuffer {
	b, _ := p.pool.Get().(*png.EncoderBuffer)
	return b
}

func (p *pngBuffers) Put(b *png.EncoderBuffer) { p.pool.Put(b) }

// Game frames are flat areas of colour, for which the fast level costs few bytes.
var pngEncoder = png.Encoder{CompressionLevel: png.BestSpeed, BufferPool: new(pngBuffers)}

// EncodeImage returns the bytes of an image.
func EncodeImage(img image.Image, f Format) ([]byte, error) {
	if img == nil || img.Bounds().Empty() {
		return nil, fmt.Errorf("%w: an image without pixels", ErrFormat)
	}
	var b bytes.Buffer
	var err error
	if f == JPEG {
		err = jpeg.Encode(&b, img, &jpeg.Options{Quality: quality})
	} else {
		err = pngEncoder.Encode(&b, img)
	}
	return b.Bytes(), err
}

// DecodeImage reads a PNG or a JPEG into an *image.RGBA if it is opaque, else an
// *image.NRGBA. The header is read first: an image of more than *pixels pixels
// is refused, with an error that wraps ErrLimit, before memory is spent on it.
// What was read is subtracted from *pixels.
func DecodeImage(data []byte, pixels *int) (image.Image, error) {
	config, decode := png.DecodeConfig, png.Decode
	switch {
	case bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")):
	case bytes.HasPrefix(data, []byte("\xff\xd8")):
		config, decode = jpeg.DecodeConfig, jpeg.Decode
	default:
		return nil, fmt.Errorf("%w: an image that is neither PNG nor JPEG: it begins with %q", ErrFormat, data[:min(len(data), 8)])
	}
	c, err := config(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%w: image header: %w", ErrFormat, err)
	}
	if c.Width < 1 || c.Height < 1 || c.Width > *pixels/c.Height {
		return nil, fmt.Errorf("%w: an image of %d×%d, room is left for %d pixels", ErrLimit, c.Width, c.Height, *pixels)
	}
	img, err := decode(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%w: image: %w", ErrFormat, err)
	}
	*pixels -= c.Width * c.Height
	return plain(img), nil
}

// plain converts to the two kinds of images that callers have to know.
func plain(img image.Image) image.Image {
	var m draw.Image
	opaque, ok := img.(interface{ Opaque() bool })
	switch img.(type) {
	case *image.RGBA, *image.NRGBA:
		return img
	}
	if ok && opaque.Opaque() {
		m = image.NewRGBA(img.Bounds())
	} else {
		m = image.NewNRGBA(img.Bounds())
	}
	draw.Draw(m, m.Bounds(), img, img.Bounds().Min, draw.Src)
	return m
}
