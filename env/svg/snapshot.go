package svg

import (
	"context"
	"crypto/sha256"
	"fmt"
	"image"
	"slices"

	"vagen/env"
	"vagen/env/internal/snapshot"
)

var _ env.Snapshotter = (*Env)(nil)

// saved is the state of an episode.
type saved struct {
	Sample  string // name of the drawing
	Code    [32]byte
	Attempt string // code of the last turn; empty without valid code
	Last    float64
	Scored  bool
}

// Snapshot implements env.Snapshotter.
func (e *Env) Snapshot() ([]byte, error) {
	if err := e.Calls.Snapshot(e.target != nil); err != nil {
		return nil, err
	}
	return snapshot.Encode("svg", e.fixedOptions(), saved{e.sample.Name, sha256.Sum256([]byte(e.sample.Code)), e.code,
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
	var attempt image.Image
	if s.Attempt != "" {
		err := checkCode(s.Attempt)
		if err != nil {
			return snapshot.Bad("svg", "its code: %v", err)
		}
		if attempt, err = e.draw(ctx, s.Attempt); err != nil {
			return err
		}
	}
	sample := e.data.samples[i]
	target, err := e.render(ctx, sample.Code)
	if err != nil {
		return fmt.Errorf("svg: restore: sample %q: %w", sample.Name, err)
	}
	e.sample, e.target, e.edges, e.inks, e.attempt, e.code = sample, target, nil, nil, attempt, s.Attempt
	e.last, e.scored = s.Last, s.Scored
	return nil
}

// fixedOptions are the options without the caller's scorers, which have no state.
func (e *Env) fixedOptions() Options {
	o := e.o
	o.DINO, o.DreamSim = nil, nil
	return o
}
