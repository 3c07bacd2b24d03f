package wire

import (
	"fmt"
	"image"
)

// ImageOf reads an image that was sent as an array: nested lists of bytes of the
// shape height×width, or height×width×channels with 1, 3 or 4 channels. The rules
// about *pixels are those of CheckImage.
func ImageOf(array map[string]any, pixels *int) (image.Image, error) {
	if kind := array["dtype"]; kind != "uint8" {
		return nil, fmt.Errorf("%w: an image array of dtype %.20v, must be uint8", ErrFormat, kind)
	}
	var shape [3]int
	dims, _ := array["shape"].([]any)
	if len(dims) == 2 {
		dims = append(dims[:2:2], int64(1))
	}
	for i, d := range dims {
		if n, ok := d.(int64); ok && i < 3 && n >= 1 && n <= int64(*pixels) {
			shape[i] = int(n)
		}
	}
	h, w, channels := shape[0], shape[1], shape[2]
	if len(dims) != 3 || h == 0 || w == 0 || channels != 1 && channels != 3 && channels != 4 {
		return nil, fmt.Errorf("%w: an image array has %d dimensions or a size that is not allowed, must be height×width or height×width×(1, 3 or 4)", ErrFormat, len(dims))
	}
	if w > *pixels/h {
		return nil, fmt.Errorf("%w: an image of %d×%d pixels, at most %d more pixels are allowed", ErrLimit, w, h, *pixels)
	}
	values := make([]byte, 0, h*w*channels)
	values, err := flatten(values, array["data"], cap(values))
	if err != nil {
		return nil, err
	}
	if len(values) != h*w*channels {
		return nil, fmt.Errorf("%w: an image array has %d values, its shape is %v", ErrFormat, len(values), shape)
	}
	*pixels -= h * w
	m := image.NewNRGBA(image.Rect(0, 0, w, h))
	for i := range h * w {
		px := m.Pix[4*i : 4*i+4]
		v := values[channels*i : channels*i+channels]
		switch channels {
		case 1:
			px[0], px[1], px[2], px[3] = v[0], v[0], v[0], 0xff
		case 3:
			px[0], px[1], px[2], px[3] = v[0], v[1], v[2], 0xff
		default:
			copy(px, v)
		}
	}
	return m, nil
}

// flatten appends the numbers of nested lists, at most limit of them.
func flatten(dst []byte, v any, limit int) ([]byte, error) {
	switch v := v.(type) {
	case []any:
		for _, inner := range v {
			var err error
			if dst, err = flatten(dst, inner, limit); err != nil {
				return nil, err
			}
		}
		return dst, nil
	case int64:
		if v >= 0 && v <= 255 && len(dst) < limit {
			return append(dst, byte(v)), nil
		}
	case float64:
		if b := byte(v); float64(b) == v && len(dst) < limit {
			return append(dst, b), nil
		}
	}
	return nil, fmt.Errorf("%w: an image array has a %T that is not a number in 0 to 255, or more values than its shape",
		ErrFormat, v)
}
