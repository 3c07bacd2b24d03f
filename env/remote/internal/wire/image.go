package wire

import (
	"bytes"
	"fmt"
	"image"
	"image/jpeg"

	"vagen/internal/imagefile"
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

// quality of JPEG images: the default of Pillow, which the original uses.
const quality = 75

// EncodeImage returns the bytes of an image.
func EncodeImage(img image.Image, f Format) ([]byte, error) {
	if img == nil || img.Bounds().Empty() {
		return nil, fmt.Errorf("%w: an image without pixels", ErrFormat)
	}
	if f == PNG {
		if data, ok := quickPNG(img); ok {
			return data, nil
		}
	}
	var b bytes.Buffer
	var err error
	if f == JPEG {
		err = jpeg.Encode(&b, img, &jpeg.Options{Quality: quality})
	} else {
		err = imagefile.FastPNG.Encode(&b, img)
	}
	return b.Bytes(), err
}

// EncodeImages returns the bytes of the images of an observation.
func EncodeImages(images []image.Image, f Format) ([][]byte, error) {
	files := make([][]byte, len(images))
	for i, img := range images {
		var err error
		if files[i], err = EncodeImage(img, f); err != nil {
			return nil, fmt.Errorf("image %d of the observation: %w", i, err)
		}
	}
	return files, nil
}

// quickPNG encodes opaque images with the fast encoder of this package, if it can.
func quickPNG(img image.Image) ([]byte, bool) {
	var pix []byte
	var stride int
	switch m := img.(type) {
	case *image.RGBA:
		pix, stride = m.Pix, m.Stride
	case *image.NRGBA: // the same bytes as RGBA if all pixels are opaque
		pix, stride = m.Pix, m.Stride
	default:
		return nil, false
	}
	// Most images of games take less than half a byte per pixel.
	size := img.Bounds().Size()
	return appendPNG(make([]byte, 0, size.X*size.Y/2+256), pix, stride, size)
}

// CheckImage reads the header of a PNG or a JPEG and subtracts the image's number of
// pixels from *pixels. If it has more than that, the error wraps ErrLimit.
func CheckImage(data []byte, pixels *int) error {
	if f := imagefile.FormatOf(data); f != imagefile.PNG && f != imagefile.JPEG {
		return fmt.Errorf(
			"%w: an image is neither PNG nor JPEG: it begins with %q", ErrFormat, data[:min(len(data), 8)],
		)
	}
	width, height, err := imagefile.Size(data)
	if err != nil {
		return fmt.Errorf("%w: image header: %w", ErrFormat, err)
	}
	if width < 1 || height < 1 || width > *pixels/height {
		return fmt.Errorf(
			"%w: an image of %d×%d pixels, at most %d more pixels are allowed", ErrLimit, width, height, *pixels,
		)
	}
	*pixels -= width * height
	return nil
}

// DecodeImage decodes a PNG or a JPEG to an *image.RGBA or an *image.NRGBA. It applies CheckImage before it allocates
// pixels.
func DecodeImage(data []byte, pixels *int) (image.Image, error) {
	if err := CheckImage(data, pixels); err != nil {
		return nil, err
	}
	img, err := imagefile.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%w: image: %w", ErrFormat, err)
	}
	return plain(img), nil
}

// plain converts to *image.RGBA or *image.NRGBA, the only types that callers handle.
func plain(img image.Image) image.Image {
	if _, ok := img.(*image.RGBA); ok {
		return img
	}
	return imagefile.NRGBA(img)
}
