package store

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"sync"

	"github.com/parquet-go/parquet-go"

	"vagen/internal/imagefile"
	"vagen/rollout"
)

// MaxImageBytes limits the size of an encoded image.
const MaxImageBytes = 8 * maxPixels

// writers keeps writers, which are costly to create, between messages. Snappy compresses less
// than the format of files, but needs no large tables.
var writers = sync.Pool{New: func() any {
	return parquet.NewGenericWriter[record](nil, parquet.KeyValueMetadata(versionKey, version),
		parquet.Compression(&parquet.Snappy))
}}

// Encode returns the bytes of a file of trajectories, for transport. keep is called for every
// image, under the name that the trajectories refer to; png encodes it, which is only
// needed for an image that the receiver does not have.
func Encode(
	step int, ts []*rollout.Trajectory, keep func(name string, png func() ([]byte, error)) error,
) ([]byte, error) {
	var out bytes.Buffer
	w := writers.Get().(*parquet.GenericWriter[record])
	w.Reset(&out)
	store := func(im image.Image) (string, error) {
		p, name, err := named(im)
		if p == nil {
			return name, err
		}
		return name, keep(name, func() ([]byte, error) {
			var b bytes.Buffer
			err := imagefile.FastPNG.Encode(&b, p)
			return b.Bytes(), err
		})
	}
	records := make([]record, len(ts))
	for i, t := range ts {
		if t == nil {
			return nil, fmt.Errorf("store: trajectory %d is nil", i)
		}
		var err error
		if records[i], err = encode(step, t, store); err != nil {
			return nil, fmt.Errorf("store: trajectory %d (group %d, index %d): %w", i, t.Group, t.Index, err)
		}
	}
	_, err := w.Write(records)
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	writers.Put(w)
	return out.Bytes(), nil
}

// Decode reads what Encode wrote, with at most limit trajectories. The bytes may be those of
// anybody: those that Encode cannot have written give an error that wraps ErrFormat. fetch
// returns an encoded image by its name.
func Decode(data []byte, limit int, fetch func(name string) ([]byte, error)) ([]Stored, error) {
	table, err := openTable(bytes.NewReader(data), int64(len(data)), versionKey, version, int64(limit))
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	images := map[string]image.Image{}
	get := func(name string) (image.Image, error) {
		if im, ok := images[name]; ok {
			return im, nil
		}
		if !isName(name) {
			return nil, fmt.Errorf("%w: %q is not the name of an image", ErrFormat, name)
		}
		raw, err := fetch(name)
		if err != nil {
			return nil, err
		}
		if len(raw) > MaxImageBytes {
			return nil, fmt.Errorf("%w: image %s has %d bytes, at most %d are allowed", ErrFormat, name, len(raw), MaxImageBytes)
		}
		im, err := decodeImage(name, raw)
		if err == nil {
			images[name] = im
		}
		return im, err
	}
	var out []Stored
	for one, err := range each[record](table, 0) {
		var s Stored
		if err == nil {
			s, err = decode(one, get)
		}
		if err != nil {
			return nil, fmt.Errorf("store: trajectory %d: %w", len(out), err)
		}
		out = append(out, s)
	}
	return out, nil
}

// EncodeOptions returns the options of an environment as JSON that DecodeOptions reads back
// with their types, "" for none. Unlike the files of this package it contains secrets.
func EncodeOptions(config map[string]any) (string, error) {
	if len(config) == 0 {
		return "", nil
	}
	return optionsJSON(config)
}

// DecodeOptions reads what EncodeOptions wrote: whole numbers as uint64, or int64 when they
// are negative, as YAML does.
func DecodeOptions(text string) (map[string]any, error) { return decodeConfig(text) }
