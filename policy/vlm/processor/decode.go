package processor

import (
	"bytes"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"io"
)

// Limits bound what DecodeImage accepts. All must be at least 1.
type Limits struct {
	Bytes  int // of the encoded image
	Side   int // of width and of height, in pixels
	Pixels int // width times height
}

// DefaultLimits are generous for observations of environments: 32 MiB encoded,
// sides up to 16,384, 64 million pixels (256 MB decoded).
func DefaultLimits() Limits { return Limits{Bytes: 32 << 20, Side: 1 << 14, Pixels: 1 << 26} }

var formats = []struct {
	name, magic string
	config      func(io.Reader) (image.Config, error)
	decode      func(io.Reader) (image.Image, error)
}{
	{"PNG", "\x89PNG\r\n\x1a\n", png.DecodeConfig, png.Decode},
	{"JPEG", "\xff\xd8", jpeg.DecodeConfig, jpeg.Decode},
}

// DecodeImage reads a PNG or JPEG image. It checks the size in the header before it
// allocates memory for the pixels. PNG is exact. JPEG with subsampled
// chroma differs from decoders that interpolate it, such as libjpeg: by up to 50 levels at edges
// of colours. Its orientation tag is ignored. An error wraps ErrImage.
func DecodeImage(r io.Reader, limits Limits) (image.Image, error) {
	if limits.Bytes < 1 || limits.Side < 1 || limits.Pixels < 1 {
		return nil, fmt.Errorf("processor: %w: limits %+v, all must be at least 1", ErrConfig, limits)
	}
	raw, err := io.ReadAll(io.LimitReader(r, int64(limits.Bytes)+1))
	if err != nil {
		return nil, fmt.Errorf("processor: reading an image: %w", err)
	}
	if len(raw) > limits.Bytes {
		return nil, fmt.Errorf("processor: %w: more than %d bytes", ErrImage, limits.Bytes)
	}
	for _, f := range formats {
		if !bytes.HasPrefix(raw, []byte(f.magic)) {
			continue
		}
		c, err := f.config(bytes.NewReader(raw))
		if err != nil {
			return nil, fmt.Errorf("processor: %w: %s: %w", ErrImage, f.name, err)
		}
		if c.Width < 1 || c.Height < 1 || c.Width > limits.Side || c.Height > limits.Side || c.Width > limits.Pixels/c.Height {
			return nil, fmt.Errorf("processor: %w: %s of %d by %d pixels, allowed sides 1 to %d and %d pixels",
				ErrImage, f.name, c.Width, c.Height, limits.Side, limits.Pixels)
		}
		img, err := f.decode(bytes.NewReader(raw))
		if err != nil {
			return nil, fmt.Errorf("processor: %w: %s: %w", ErrImage, f.name, err)
		}
		return img, nil
	}
	return nil, fmt.Errorf("processor: %w: begins with %q, must be PNG or JPEG", ErrImage, raw[:min(len(raw), 8)])
}
