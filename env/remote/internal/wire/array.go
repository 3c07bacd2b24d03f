package wire

import (
	"fmt"
	"image"
)

// Shape returns the lengths of nested lists of numbers that are an image, by their first elements: height×width, or
// height×width×channels with 1, 3 or 4 channels. It is nil for other values.
func Shape(v any) (shape []int) {
	for list, ok := v.([]any); ok && len(list) > 0 && len(shape) < 4; list, ok = v.([]any) {
		shape, v = append(shape, len(list)), list[0]
	}
	_, whole := v.(int64)
	_, float := v.(float64)
	flat := len(shape) == 2
	if !whole && !float || !flat && (len(shape) != 3 || shape[2] != 1 && shape[2] != 3 && shape[2] != 4) {
		return nil
	}
	return shape
}

// ImageOf reads an image that was sent as nested lists of numbers from 0 to 255, see Shape. The rules
// about *pixels are those of CheckImage.
func ImageOf(data any, pixels *int) (image.Image, error) {
	shape := Shape(data)
	if shape == nil {
		return nil, fmt.Errorf("%w: an image array must be height×width or height×width×(1, 3 or 4) numbers", ErrFormat)
	}
	h, w, channels := shape[0], shape[1], 1
	if len(shape) > 2 {
		channels = shape[2]
	}
	if w > *pixels/h {
		return nil, fmt.Errorf("%w: an image of %d×%d pixels, at most %d more pixels are allowed", ErrLimit, w, h, *pixels)
	}
	values := make([]byte, 0, h*w*channels)
	values, err := flatten(values, data, cap(values))
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
