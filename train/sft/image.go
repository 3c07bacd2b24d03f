package sft

import (
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"path/filepath"
	"strings"

	"vagen/internal/imagefile"
	"vagen/internal/regular"
)

// maxPixels is the maximum size of an image; larger ones are refused before they are decoded.
const maxPixels = 1 << 26

// imageList returns the images of a record's column of images; nil if it has none.
func imageList(record map[string]any, key, dir string) ([]picture, error) {
	v, ok := lookup(record, key)
	if !ok {
		return nil, nil
	}
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("%s: it is %s, must be a list of images", key, kindOf(v))
	}
	var out []picture
	for i, x := range list {
		p, err := pictureOf(x, dir)
		if err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", key, i, err)
		}
		out = append(out, p)
	}
	return out, nil
}

// pictureOf returns an image given as a path, a data URL, the bytes of a file, or a mapping
// with one of them under bytes, path or url. Paths are relative to dir. The image is read and
// decoded when it is needed.
func pictureOf(v any, dir string) (picture, error) {
	switch v := v.(type) {
	case string:
		return fromText(v, dir)
	case []byte:
		return fromBytes(v)
	case map[string]any:
		if raw := v["bytes"]; raw != nil && !empty(raw) {
			data, ok := textOf(raw)
			if !ok {
				return nil, fmt.Errorf("bytes is %s, must be the bytes of an image", kindOf(raw))
			}
			return fromBytes([]byte(data))
		}
		for _, key := range []string{"path", "url"} {
			if text, ok := textOf(v[key]); ok {
				return fromText(text, dir)
			}
		}
		return nil, errors.New("the mapping has neither bytes nor path nor url")
	}
	return nil, fmt.Errorf("it is %s, must be a path, a data URL, or bytes", kindOf(v))
}

// fromText returns the image of a path or a data URL.
func fromText(text, dir string) (picture, error) {
	if rest, ok := strings.CutPrefix(text, "data:"); ok {
		kind, data, ok := strings.Cut(rest, ",")
		if !ok || !strings.HasSuffix(kind, ";base64") {
			return nil, errors.New("the data URL must have the form data:image/png;base64,…")
		}
		raw, err := base64.StdEncoding.DecodeString(data)
		if err != nil {
			return nil, fmt.Errorf("the data URL is not base64: %w", err)
		}
		return fromBytes(raw)
	}
	path, isFile := strings.CutPrefix(text, "file://")
	if scheme, _, ok := strings.Cut(text, "://"); ok && !isFile {
		return nil, fmt.Errorf("addresses of %s are not read: download the image and give its path", scheme)
	}
	if path == "" {
		return nil, errors.New("it is empty, must be a path, a data URL, or bytes")
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, filepath.FromSlash(path))
	}
	return func() (image.Image, error) {
		raw, err := regular.ReadFile(path)
		if err != nil {
			return nil, err
		}
		im, err := decode(raw)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return im, nil
	}, nil
}

// fromBytes returns the image of a file's bytes, whose header must be readable.
func fromBytes(raw []byte) (picture, error) {
	if err := checkSize(raw); err != nil {
		return nil, err
	}
	return func() (image.Image, error) { return decode(raw) }, nil
}

// checkSize reads the size of an image in the header of its file.
func checkSize(raw []byte) error {
	_, err := imagefile.Check(raw, maxPixels, maxPixels)
	return err
}

func decode(raw []byte) (image.Image, error) {
	if err := checkSize(raw); err != nil {
		return nil, err
	}
	return imagefile.Decode(raw)
}
