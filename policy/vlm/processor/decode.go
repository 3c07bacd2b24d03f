package processor

import (
	"fmt"
	"image"
	"io"

	"vagen/internal/imagefile"
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

// DecodeImage reads a PNG or JPEG image as Pillow does, with the orientation that its EXIF data
// name. It checks the size in the header before it allocates memory for the pixels. An error
// wraps ErrImage.
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
	f := imagefile.FormatOf(raw)
	if f != imagefile.PNG && f != imagefile.JPEG {
		return nil, fmt.Errorf("processor: %w: begins with %q, must be PNG or JPEG", ErrImage, raw[:min(len(raw), 8)])
	}
	var img image.Image
	if _, err = imagefile.Check(raw, limits.Side, limits.Pixels); err == nil {
		img, err = imagefile.Decode(raw)
	}
	if err != nil {
		return nil, fmt.Errorf("processor: %w: %s: %w", ErrImage, f, err)
	}
	return img, nil
}
