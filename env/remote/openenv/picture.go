package openenv

import (
	"encoding/base64"
	"fmt"
	"image"
	"strings"

	"vagen/env/remote"
	"vagen/env/remote/internal/wire"
)

// gallery holds the images of an observation.
type gallery struct {
	images        []image.Image
	limit, pixels int // of images, and of pixels of further ones
}

// add decodes a value of an observation: a base64 PNG or JPEG, also as a data URL; an array of
// height×width or height×width×(1, 3 or 4) numbers from 0 to 255; an object whose field data is
// one; or a list of these.
func (g *gallery) add(v any) error {
	var img image.Image
	var err error
	switch v := v.(type) {
	case string:
		if strings.HasPrefix(v, "data:") {
			_, v, _ = strings.Cut(v, ",")
		}
		if v == "" {
			return nil
		}
		raw, wrong := base64.StdEncoding.DecodeString(v)
		if wrong != nil {
			return fmt.Errorf("an image must be in base64, found %q: %w", clip(v), wrong)
		}
		img, err = wire.DecodeImage(raw, &g.pixels)
	case map[string]any:
		return g.add(v["data"])
	case []any:
		if wire.Shape(v) == nil {
			for _, x := range v {
				if err := g.add(x); err != nil {
					return err
				}
			}
			return nil
		}
		img, err = wire.ImageOf(v, &g.pixels)
	case nil:
		return nil
	default:
		return fmt.Errorf("an image must be base64 text or an array of numbers, found %s", shown(v))
	}
	if g.images = append(g.images, img); err == nil && len(g.images) > g.limit {
		err = fmt.Errorf("%w: more than %d images, the limit", remote.ErrTooLarge, g.limit)
	}
	return err
}
