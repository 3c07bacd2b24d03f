package svg

import (
	"bytes"
	"compress/flate"
	"context"
	"crypto/sha256"
	"fmt"
	"image"
	"io"
	"slices"

	"vagen/env"
	"vagen/env/internal/snapshot"
	"vagen/internal/imagefile"
)

var _ env.Snapshotter = (*Env)(nil)

// saved is the state of an episode.
type saved struct {
	Sample  string // name of the drawing
	Code    [32]byte
	Attempt []byte // pixels of the last turn's picture, compressed; nil without one
	Last    float64
	Scored  bool
}

// Snapshot implements env.Snapshotter.
func (e *Env) Snapshot() ([]byte, error) {
	if err := e.Calls.Snapshot(e.target != nil); err != nil {
		return nil, err
	}
	attempt, err := deflate(e.attempt)
	if err != nil {
		return nil, fmt.Errorf("svg: snapshot: %w", err)
	}
	return snapshot.Encode("svg", e.fixedOptions(), saved{e.sample.Name, sha256.Sum256([]byte(e.sample.Code)), attempt,
		e.last, e.scored})
}

// Restore implements env.Snapshotter. The data set must hold the drawing.
func (e *Env) Restore(ctx context.Context, state []byte) error {
	if err := e.Calls.Open(ctx); err != nil {
		return err
	}
	var s saved
	if err := snapshot.Decode("svg", e.fixedOptions(), state, &s); err != nil {
		return err
	}
	i := slices.IndexFunc(e.data.samples, func(d Sample) bool {
		return d.Name == s.Sample && sha256.Sum256([]byte(d.Code)) == s.Code
	})
	if i < 0 {
		return snapshot.Bad("svg", "the data set has no such drawing as its %.40q", s.Sample)
	}
	attempt, err := inflate(s.Attempt)
	if err != nil {
		return snapshot.Bad("svg", "its picture: %v", err)
	}
	sample := e.data.samples[i]
	target, err := e.render(ctx, sample.Code)
	if err != nil {
		return fmt.Errorf("svg: restore: sample %q: %w", sample.Name, err)
	}
	e.sample, e.target, e.edges, e.inks, e.attempt, e.last, e.scored = sample, target, nil, nil, attempt, s.Last, s.Scored
	return nil
}

// fixedOptions are the options without the caller's scorers, which have no state.
func (e *Env) fixedOptions() Options {
	o := e.o
	o.DINO, o.DreamSim = nil, nil
	return o
}

// deflate compresses the pixels of a picture; nil gives nil.
func deflate(im image.Image) ([]byte, error) {
	if im == nil {
		return nil, nil
	}
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(imagefile.NRGBA(im).Pix); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// inflate is the inverse of deflate.
func inflate(raw []byte) (image.Image, error) {
	if raw == nil {
		return nil, nil
	}
	rgba := image.NewRGBA(image.Rect(0, 0, pictureSize, pictureSize))
	r := flate.NewReader(bytes.NewReader(raw))
	if _, err := io.ReadFull(r, rgba.Pix); err != nil {
		return nil, err
	}
	if n, err := r.Read(make([]byte, 1)); n > 0 || err != io.EOF {
		return nil, fmt.Errorf("it has more than %d bytes", len(rgba.Pix))
	}
	return rgba, nil
}
