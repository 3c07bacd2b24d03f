package openenv

import (
	"encoding/base64"
	"fmt"
	"image"
	"math"
	"slices"
	"strings"

	"vagen/env/remote/internal/wire"
)

// pictures decodes a value of an observation: a base64 PNG or JPEG, also as a data URL; an array of
// height×width or height×width×(1, 3 or 4) numbers from 0 to 255; an object whose field data is
// one; or a list of these. At most limit images have at most *pixels pixels in total.
func pictures(v any, pixels *int, limit int) ([]image.Image, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		if v == "" {
			return nil, nil
		}
		if strings.HasPrefix(v, "data:") {
			_, v, _ = strings.Cut(v, ",")
		}
		raw, err := base64.StdEncoding.DecodeString(v)
		if err != nil {
			return nil, fmt.Errorf("an image must be in base64, found %q: %w", clip(v), err)
		}
		img, err := wire.DecodeImage(raw, pixels)
		if err != nil {
			return nil, err
		}
		return []image.Image{img}, nil
	case map[string]any:
		return pictures(v["data"], pixels, limit)
	case []any:
		if dims := shape(v); len(dims) >= 2 && (len(dims) == 2 || slices.Contains(channels, dims[2])) {
			img, err := wire.ImageOf(map[string]any{"dtype": "uint8", "shape": dims, "data": integers(v)}, pixels)
			if err != nil {
				return nil, err
			}
			return []image.Image{img}, nil
		}
		var all []image.Image
		for _, x := range v {
			more, err := pictures(x, pixels, limit)
			if err != nil {
				return nil, err
			}
			if all = append(all, more...); len(all) > limit {
				return nil, fmt.Errorf("more than %d images, the limit", limit)
			}
		}
		return all, nil
	}
	return nil, fmt.Errorf("an image must be base64 text or an array of numbers, found %s", clip(text(v)))
}

// shape returns the lengths of the first elements of nested lists of numbers; nil for other lists.
func shape(v any) []any {
	var dims []any
	for len(dims) < 4 {
		list, ok := v.([]any)
		if !ok {
			if _, number := v.(float64); number {
				return dims
			}
			return nil
		}
		if len(list) == 0 {
			return nil
		}
		dims, v = append(dims, int64(len(list))), list[0]
	}
	return nil
}

// channels are the numbers of channels that a picture may have.
var channels = []any{int64(1), int64(3), int64(4)}

// integers converts the numbers of nested lists in place, for wire.ImageOf.
func integers(list []any) []any {
	for i, x := range list {
		switch x := x.(type) {
		case float64:
			if x == math.Trunc(x) { // others are not numbers of a picture
				list[i] = int64(x)
			}
		case []any:
			integers(x)
		}
	}
	return list
}
